"""``muster doctor``: problems of a machine, a configuration or a running Muster, and how to mend them."""
