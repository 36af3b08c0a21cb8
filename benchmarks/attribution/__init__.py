"""``python -m benchmarks.attribution``: attribution by Muster and by KoP's rule, compared with the known truth."""
