"""Reproducible measurements of Muster; see docs/benchmarks.md."""
