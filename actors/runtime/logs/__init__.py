"""The logs of Muster's processes, for programs that read them."""
