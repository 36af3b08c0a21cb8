"""Runs of Spark's jobs that are requested over HTTP: what they are, where their results are, and who runs them."""
