"""TLS of clients: key stores, contexts, the principal of a certificate, and the transport of a connection."""
