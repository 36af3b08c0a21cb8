"""Jobs as Structured Streaming: what arrives in the tables is folded once, and jobs run over what was folded.

A stream keeps no state and needs no watermark. Every micro-batch is folded to rows of the same table in windows of a
minute (:mod:`spark.streaming.folds`) and written under its batch id (:mod:`spark.streaming.output`); whoever reads
folds the batches again and runs the batch job over them. A row that comes late, by hours or by a gateway whose clock is
wrong, is folded into the minute that it says, so none is ever dropped. :mod:`spark.streaming.checkpoint` is what makes
it exactly once.
"""
