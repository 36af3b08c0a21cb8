"""The demonstration: real clients, real data, faults, and a report on whether all checks passed."""
