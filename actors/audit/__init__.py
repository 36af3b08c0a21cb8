"""The audit of attribution: bytes that a group's commits imply against bytes that gateways counted for the group.

It needs no side channel. The coordinator sees a group commit o1 and then o2 of a partition; so somebody consumed
[o1, o2), or jumped. Gateways know what they sent for the group, and what they sent without knowing for whom. The log
knows the bytes. Nothing here is believed because of a registration.

**The measure.** A batch counts its bytes, all at its last offset: the size of [a, b) is that of the batches whose last
offset is in it. Sizes of disjoint spans then add up, whatever cuts batches: a commit in the middle of a batch counts it
when its last record is committed. Log actors compute the bytes before an offset from the index
(:mod:`muster.actors.log.cumulative_size`).

**What is collected** since the last round, and taken over exactly once (:mod:`muster.actors.audit.outbox`):

* coordinators (:mod:`muster.actors.audit.commits`): steps (from, to, by a member or not), one addition per committed
  partition, as events of the core tell of them; steps that follow each other are one.
* gateways (:mod:`muster.actors.audit.sends`): runs of offsets with their bytes, for a group or for nobody. They are the
  rows of the ``samples`` table, looked at when they are flushed: nothing is added to a fetch, and bytes whose
  attribution is pending come when it is settled.

**The comparison** (:mod:`muster.actors.audit.books`, pure). Per group and partition: S, the offsets sent for it, and C,
those that its commits went past, from the first step that was seen; each offset counts once. With ``attributed`` the
bytes sent for the group and ``implied`` the size of C, exactly, in each round::

    attributed - implied == prefetch + reread + retention
                            - (waiting + reset + admin_commit + unknown + mislabelled + lost)

=============  ======================================================================================================
prefetch       sent beyond the last commit: fetched, not committed yet
reread         sent again, or sent from before the last commit without being committed
retention      what the log does not hold any more, or holds in another size since it was compacted
waiting        committed past and not sent for the group; not judged before pending attributions had time to settle
unknown        the same; may have been sent before the audit began, or through a gateway or coordinator that was lost
admin_commit   the same; by a commit outside of a generation: an admin tool, a mirror, or assign()
reset          the same; by a member: a seek or reset forward, since nobody was sent these offsets without attribution
lost           the same, and these very offsets were sent to somebody who had no name: an attribution was lost
mislabelled    the same, and another group was sent these very offsets twice: an attribution went wrong
=============  ======================================================================================================

The last two are unexplained. A consumer that reads everything once and commits it has attributed == implied as soon
as it has committed what it fetched, whatever its batches and commits are.

**What it cannot tell.** An unattributed reader (no group at all) of the very offsets that a group jumps over, within
EVIDENCE_MS, looks like a loss. What a lost gateway or a restarted audit had not told is ``unknown``: everything below
the end of the log at that time. Messages are not compared: how many are in a span is only in the batches.

**Who compares**: the process of the reconciler, every ``audit.interval.ms``, over Ray calls
(:mod:`muster.actors.audit.auditor`). It keeps nothing over a restart. Gateways hold its last report for ``/metrics``.
"""
