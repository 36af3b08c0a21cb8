"""Authentication of clients: SASL PLAIN and SCRAM on the Kafka listener. There is no TLS, and there are no ACLs."""
