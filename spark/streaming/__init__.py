"""Jobs as Structured Streaming: what arrives in the tables is folded once, and jobs run over what was folded.

A stream keeps no state and needs no watermark. Every micro-batch is folded to rows of the same table
(:mod:`muster.spark.streaming.folds`: samples by the minute) and written under its batch id
(:mod:`muster.spark.streaming.output`); whoever reads folds the batches again and runs the batch job over them. A row
that comes late, by hours or by a gateway whose clock is wrong, counts at the time that it says, so none is ever
dropped. What makes it exactly once is in :mod:`muster.spark.streaming.checkpoint`.
"""
