"""A world of processes from one seed: copies of an offsets actor, the controller, the reconciler, ZooKeeper and a disk.

Product code runs unchanged, including threads and event loops, but on virtual time: everything is an event of
:mod:`tests.simulation.schedule`, one at a time. :mod:`.acknowledged` checks what copies promise.
"""
