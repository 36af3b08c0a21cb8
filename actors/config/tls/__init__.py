"""TLS: its properties, the settings of one listener, and the rules that name a client."""
