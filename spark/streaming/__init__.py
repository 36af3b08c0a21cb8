"""Jobs as Structured Streaming: new rows of the tables are folded once, and jobs run over the folded rows.

A stream keeps no state and needs no watermark. Every micro-batch is folded to rows of the same table
(:mod:`muster.spark.streaming.folds`: samples by the minute) and written under its batch id
(:mod:`muster.spark.streaming.output`); readers fold the batches again and run the batch job over them. A row
that arrives late, by hours or from a gateway with a wrong clock, counts at its own time, so none is ever
dropped. Exactly-once processing is explained in :mod:`muster.spark.streaming.checkpoint`.
"""
