"""The HTTP side of a gateway: metrics, groups, lag, the audit, faults."""
