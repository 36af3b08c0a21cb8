"""The parts of docs/ that come from the code."""
