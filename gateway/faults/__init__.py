"""Request faults: what a gateway does to requests on purpose."""
