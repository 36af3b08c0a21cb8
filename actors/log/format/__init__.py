"""Record batches: format, checks, codecs. No files here."""
