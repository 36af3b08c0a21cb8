"""Request faults: faults that a gateway injects into requests."""
