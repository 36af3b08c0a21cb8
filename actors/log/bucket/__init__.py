"""The logs of a role in object storage.

What a role acknowledges is in its write-ahead log (:mod:`muster.actors.log.wal`). From there batches are copied into
the segments of a directory of this node, which are read and rolled as those of ``muster.actors.log.partition``. A
segment that is complete is uploaded with the files beside it, under the names that they have here. The **manifest** of
a partition, an object, then lists it, and says from which offset on the write-ahead log has the records.

**Opening** a partition, after the write-ahead log of its role:

1. the manifest is replaced by one of the new leader epoch, on condition that it is the one that was read. This ends
   the changes of every writer before, of retention and the cleaner, too: they replace it on the same condition, and
   delete only what a manifest of theirs does not list any more;
2. the directory is made: segments that are listed, from what this node still has of them or from object storage; what
   the write-ahead log has behind them, as further segments of the new epoch;
3. it is recovered as any other directory. Those further segments are uploaded then.

Therefore:

* *nothing acknowledged is lost.* A batch is in the write-ahead log, or below the offset in a manifest, in a segment
  that was uploaded before the manifest said so. The boundary of the write-ahead log is moved only up to what is in no
  uploaded segment yet, or still on its way;
* *nothing of an older writer is read that was not acknowledged before the fence*, for its segments count only where a
  manifest lists them, and after step 1 it changes none. It may leave objects that no manifest lists;
* *what lies in the directory of a node decides nothing.* It is a copy: a node that is lost takes nothing with it. After
  its machine was started again, it is not trusted, as it is never synced. Of two openers on one node, the one with the
  newer leader epoch keeps it.

An object name is used once: segments are named by leader epoch and serial, and no two openings have the same epoch.
"""
