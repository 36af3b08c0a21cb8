"""The audit of attribution: bytes that a group's commits imply against bytes that gateways counted for the group.

The audit needs no side channel. If a coordinator sees a group commit o1 and then o2 of a partition, a client consumed
[o1, o2), or skipped it. Gateways know what they sent for the group, and what they sent without attribution. The log
knows the bytes. The audit relies on no registration.

**The measure.** All bytes of a batch count at its last offset: the size of [a, b) is that of the batches whose last
offset is in it. So sizes of disjoint spans add up, even if a span ends inside a batch: a commit in the middle of a
batch counts the batch once its last record is committed. Log actors compute the bytes before an offset from the index
(:mod:`muster.actors.log.cumulative_size`).

**What is collected** since the last round, and handed over exactly once (:mod:`muster.actors.audit.outbox`):

* coordinators (:mod:`muster.actors.audit.commits`): steps (from, to, by a member or not, when), one addition per
  committed partition, from the events of the core; consecutive steps become one. They also know when a group had
  members (:mod:`muster.actors.audit.members`), and are asked for it where that matters.
* gateways (:mod:`muster.actors.audit.sends`): runs of offsets with their bytes and time, for a group or unattributed.
  They are the rows of the ``samples`` table, observed when they are flushed: fetches get no extra work, and bytes whose
  attribution is pending are included once it is settled.

The table ``commits`` has no such steps: a row of it is a flush window, with the last offset, the lowest, and who
committed last. A reset within a window, and an admin tool's commit before a member's, are not in it.

Both name the topic's id as of then (:mod:`muster.actors.audit.topics`): what is reported of a topic that was deleted
and created again meanwhile belongs to neither the offsets nor the log of the later one.

**The comparison** (:mod:`muster.actors.audit.books`, pure). Per group and partition: S, the offsets sent for it, and C,
the offsets that its commits went past since the first observed step; each offset counts once. ``attributed`` is the
number of bytes sent for the group, and ``implied`` the size of C. In each round, exactly::

    attributed - implied == prefetch + reread + retention + mislabelled
                            - (waiting + reset + admin_commit + unknown + mislabelled_elsewhere + lost)

=====================  ==============================================================================================
prefetch               sent beyond the last commit: fetched, not committed yet
reread                 sent again, or sent from before the last commit without being committed
mislabelled            the same, below the committed offset, while the group had no members, and the group did not
                       commit afterwards (:mod:`muster.actors.audit.doubts`): another reader's, an attribution was wrong
retention              what the log no longer holds, or holds in another size since it was compacted
waiting                committed past, but not sent for the group; not judged until pending attributions had time to
                       settle
unknown                the same; may have been sent before the audit began, or through a gateway or coordinator that was
                       lost
admin_commit           the same; by a commit outside of a generation: an admin tool, a mirror, or assign()
reset                  the same; by a member: a seek or reset forward, since these offsets were not sent without
                       attribution
mislabelled_elsewhere  the same, and exactly these offsets were sent to another group twice, or below its committed
                       offset: an attribution was wrong
lost                   the same, and exactly these offsets were sent without attribution: an attribution was lost
=====================  ==============================================================================================

``mislabelled``, ``mislabelled_elsewhere`` and ``lost`` are unexplained. If a consumer reads everything once and commits
it, attributed == implied as soon as it has committed what it fetched, whatever its batches and commits are.

**Limits.** An unattributed reader (no group at all) of exactly the offsets that a group skips, within EVIDENCE_MS,
looks like a loss. Bytes of another reader that are labelled with a group look like the group's if it has members, which
may seek back and not commit, if it commits within ten minutes, or if it has not committed so far. Which came first, a
commit or bytes, is known as exactly as the clocks of coordinator and gateway agree. What a lost gateway or a restarted
audit had not reported is ``unknown``: everything below the end of the log at that time. Messages are not compared: only
the batches know how many a span has.

**Where it runs**: in the process of the reconciler, every ``audit.interval.ms``, over Ray calls
(:mod:`muster.actors.audit.auditor`). It keeps nothing across a restart. Gateways hold its last report for ``/metrics``.
"""
