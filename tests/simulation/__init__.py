"""A whole world from one seed: a coordinator, its log, its clients, their network, and all kinds of failures.

Nothing here waits or reads a clock: :mod:`tests.simulation.schedule` determines the next event, one random generator
makes all choices, and :mod:`tests.simulation.rules.invariants` checks the result of every step of the coordinator.
Requests and responses travel as Kafka's bytes, in the client's own version.

``python -m tests.simulation --seed 1234 --trace`` shows one history; ``make simulate SEEDS=1000`` searches for a
failure.
"""
