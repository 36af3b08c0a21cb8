"""SASL OAUTHBEARER (RFC 7628): keys of an identity provider, tokens that it has signed, and the exchange."""
