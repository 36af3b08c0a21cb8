"""Record batches: format, checks, codecs. Nothing here touches files."""
