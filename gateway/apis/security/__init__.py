"""SASL, and ACLs, which there are none of."""
