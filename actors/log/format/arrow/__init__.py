"""Record batches from and to Arrow columns, without a Python object per record. Needs numpy, the extra ``data``."""
