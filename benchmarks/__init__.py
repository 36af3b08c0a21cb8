"""Measurements of Muster that anybody can repeat; see docs/benchmarks.md."""
