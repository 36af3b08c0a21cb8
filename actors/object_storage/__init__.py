"""Object storage: a bucket of S3, Google Cloud Storage, Azure or R2 as the place of a cluster's data.

``location``     the URI, and what it may hold
``store``        the operations, their errors, and what a lost response means
``bucket``       the bucket itself, through the library obstore
"""
