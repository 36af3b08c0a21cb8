"""The HTTP API of a gateway: metrics, groups, lag, the audit, faults."""
