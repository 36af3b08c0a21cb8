"""Topics as Ray Datasets: what ``muster.data`` is made of."""
