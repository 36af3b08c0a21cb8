"""A whole world from one seed: a coordinator, its log, its clients, their network, and everything that goes wrong.

Nothing here waits or looks at a clock: :mod:`tests.simulation.schedule` says what happens next, one random generator
decides what that is, and after every step of the coordinator :mod:`tests.simulation.rules.invariants` looks at the
result. Requests and answers travel as Kafka's bytes, in the client's own version.

``python -m tests.simulation --seed 1234 --trace`` shows one history; ``make simulate SEEDS=1000`` looks for a bad one.
"""
