"""The names of the SASL mechanisms, as in ``sasl.enabled.mechanisms``."""

from muster.gateway.security.scram import SCRAM_MECHANISMS

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (PLAIN, *SCRAM_MECHANISMS)
"""Mechanisms with a user and a password."""
