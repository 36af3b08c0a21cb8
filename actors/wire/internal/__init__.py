"""Messages between gateways and actors on the internal socket, and the connections that carry them."""
