"""SASL and ACLs."""
