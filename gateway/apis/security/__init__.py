"""SASL, and ACLs, of which there are none."""
