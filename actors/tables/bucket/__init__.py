"""Tables of a Muster on a bucket: ``metrics/<table>/date=.../hour=.../<name>`` are objects, named as the files are.

The actors write files below the directory of their node, as everywhere (:mod:`muster.actors.tables.store`).

``uploads``     moves them to the bucket
``hours``       which objects of an hour count
``reading``     the rows
``compaction``  merges objects, and removes hours past their retention
"""
