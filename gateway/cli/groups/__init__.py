"""``muster groups``."""
