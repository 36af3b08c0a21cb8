"""Quotas, pure: what a client may use in a time, and for how long it has to pause if it used more."""
