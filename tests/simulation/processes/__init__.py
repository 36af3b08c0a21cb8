"""A world of processes from one seed: copies of an offsets actor, the controller, the reconciler, ZooKeeper and a disk.

Product code runs as it is, threads and event loops too, but on virtual time: everything that happens is an event of
:mod:`tests.simulation.schedule`, one at a time. What copies promise is held against :mod:`.acknowledged`.
"""
