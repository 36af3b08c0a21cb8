"""The write-ahead log of a role in object storage: what makes records durable there, and who may write them.

A role is what is served under one epoch: ``log-<i>``, ``offsets-<p>``, ``transactions-<p>``. Its log is the objects
``wal/<role>/<number>``, numbered without gaps. Each is created only if it does not exist, and holds what the role
appended to its partitions since the one before, or is a **fence**: a new writer's first object, which says that its
epoch begins. Creating an object is durability and the proof of being the writer in one.

**Writing.** One object is on its way at a time. What is appended meanwhile goes into the next one. An attempt without
outcome is repeated with the same number and content until it has one. What has been appended therefore does not fail
while its writer lives and is not fenced, it only takes longer; an error that nobody foresaw ends the writer. If another
object has the number, its epoch decides: with a newer one the writer is fenced and acknowledges nothing more; one of an
older epoch is the fence of a late opener, which gives up in step 3, and the next number is tried.

**Opening**, with an epoch that nobody else has, and no earlier attempt had:

1. find the highest number, and create a fence behind it. Objects of older epochs that get there first move it on;
2. list what comes behind the fence. Anything there means that the number had been used before and freed, or that
   another opener was there: give up if that is of a newer epoch, else start again behind it;
3. read the boundary, and everything from there to the fence. A newer epoch among it, or one that moved the boundary,
   means that this opener is late: it gives up.

**Collecting.** What has become segments is not needed any more. The writer first moves the **boundary**, an object
beside the log, and then deletes what is below it, except fences, and except the newest object of the log.

Therefore, however long a process or a request is held up in between:

* *nothing acknowledged is lost.* It is in an object below the fence of the next epoch: had it come later, the fence
  would have its number;
* *an older writer acknowledges nothing that its successor has not read.* The number behind its last object is where the
  first opener after it put its fence, and fences are never deleted;
* *an opener does not continue from a number that was freed.* The newest object still exists, and step 2 finds it;
* *nothing counts twice.* A request that arrives late finds its number taken, or puts an object back that was deleted.
  It is below the boundary then, where nobody reads, and the next collection deletes it again.

**Announcing.** An opener whose requests take longer than those of an older writer that is busy all the time might never
get ahead of it: where the writer hears nothing from ZooKeeper, it does not know of a successor. So an opener first
writes its epoch into an object beside the log, which a busy writer reads every few seconds; it ends if the epoch is
newer. Nothing else depends on that.

The model is SlateDB's single writer (RFC 0001, RFC 0026), which frees fences after a time and so depends on clocks.
``tests/simulation/wal`` plays this with processes that are paused and killed, and shows what each rule is for.
"""
