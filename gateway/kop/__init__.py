"""KoP's rule beside ours (``metrics.kop.shadow.enable``)."""
