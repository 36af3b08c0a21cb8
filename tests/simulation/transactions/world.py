"""The world of one seed: producers, partitions and a coordinator, and what goes wrong between them."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.transactions.config import TransactionConfig
from muster.actors.transactions.messages import EndTxn
from muster.actors.transactions.types import MarkerRequest, TopicPartition
from muster.actors.wire.internal.verification import VerifyRequest
from tests.simulation.planted.broken import Broken
from tests.simulation.processes.process import Machine
from tests.simulation.schedule import Schedule
from tests.simulation.transactions import rules
from tests.simulation.transactions.actor import Actor
from tests.simulation.transactions.partition import Marker, Partition
from tests.simulation.transactions.producer import Act, Producer
from tests.simulation.transactions.rules import broken

E = ErrorCode
START_MS = 1_700_000_000_000
STEPS = 2_500
"""Events before the faults stop."""
HEALING_MS = 120_000
"""Time limit for the recovery after the faults have stopped."""
REQUEST_TIMEOUT_MS = 1_000
TRACE = 60
PLACES: tuple[TopicPartition, ...] = (("t", 0), ("t", 1), ("u", 0), ("__consumer_offsets", 3))
"""The last one is that of the group which AddOffsetsToTxn names."""


class World:
    def __init__(self, seed: int, *, trace_all: bool = False) -> None:
        self.chance = random.Random(seed)
        self.schedule = Schedule(START_MS)
        self.trace: deque[tuple[int, str, tuple[Any, ...]]] = deque(maxlen=None if trace_all else TRACE)
        self.promises = rules.Promises()
        self.faulty = True
        self.actor = Actor(self.schedule, self.chance, self._new_config(), self._send_markers, self.note)
        self._machine = Machine(self.schedule, self.chance, self.note)
        self.partitions = {place: Partition(place, self._machine, self._verify) for place in PLACES}
        names = ["x", "y"][: self.chance.randint(1, 2)]
        self.producers = [
            Producer(self, f"{name}{number}", name, is_newest=self.chance.random() < 0.6)
            for name in names
            for number in range(self.chance.randint(1, 3))
        ]
        rough = self.chance.choice([0.0, 0.5, 1.0, 3.0])
        self._lost, self._repeated, self._slow = 0.02 * rough, 0.02 * rough, 0.02 * rough

    def _new_config(self) -> TransactionConfig:
        chance = self.chance
        return TransactionConfig(
            transactional_id_expiration_ms=chance.choice([5_000, 604_800_000]),
            transaction_abort_timed_out_transaction_cleanup_interval_ms=chance.choice([100, 1_000, 5_000]),
            transaction_remove_expired_transaction_cleanup_interval_ms=chance.choice([1_000, 5_000]),
            transaction_version=chance.choice([0, 1, 2, 2, 2]),
            transaction_end_wait_ms=chance.choice([0, 50, 50]),
            offsets_topic_num_partitions=4,
        )

    @property
    def counts(self) -> Counter[str]:
        return self.actor.events + Counter(committed=len(self.promises.committed))

    def run(self, steps: int = STEPS) -> None:
        """Run the whole history. Raises Broken, also if the coordinator raises anything else."""
        try:
            self._run(steps)
        except Broken:
            raise
        except Exception as error:
            raise Broken(repr(error), "the_core_never_fails") from error
        finally:
            self._machine.close()

    def _run(self, steps: int) -> None:
        self.actor.start()
        for producer in self.producers:
            self._resume(producer.life(), None)
        self._trouble_begins()
        while self.schedule.steps < steps and self._step():
            pass
        self._heal()

    def _step(self) -> bool:
        """Whether something happened. Raises Broken if it failed in a partition's process."""
        is_going = self.schedule.step()
        if self._machine.broken is not None:
            raise self._machine.broken
        return is_going

    def note(self, text: str, *args: Any) -> None:
        self.trace.append((self.schedule.now_ms - START_MS, text, args))

    def history(self) -> Iterator[str]:
        for at_ms, text, args in self.trace:
            yield f"{at_ms:>8} ms  {text % args if args else text}"

    # Producers.

    def _resume(self, act: Act, value: Any) -> None:
        try:
            kind, what = act.send(value)
        except StopIteration:
            return
        if kind == "sleep":
            self.schedule.after(what, lambda: self._resume(act, None))
            return
        answered = False

        def respond(response: Any) -> None:
            nonlocal answered
            if not answered:
                answered = True
                self._resume(act, response)

        self.schedule.after(REQUEST_TIMEOUT_MS, lambda: respond(None))
        is_old_end = isinstance(what, EndTxn) and what.api_version < 5
        self._through_network(
            lambda: self._deliver(kind, what, lambda response: self._back(respond, response)), in_order=is_old_end
        )

    def _deliver(self, kind: str, what: Any, respond: Callable[[Any], None]) -> None:
        self.note("%s %s", kind, what)
        if kind == "request":
            self.actor.request(what, respond)
        else:
            place, batch = what
            self.partitions[place].produce(batch, respond)

    def _back(self, respond: Callable[[Any], None], response: Any) -> None:
        if self.chance.random() >= self._lost:
            self.schedule.after(self.chance.randint(0, 5), lambda: respond(response))

    def _through_network(self, deliver: Callable[[], None], *, in_order: bool) -> None:
        """Deliver late, twice, or never; with ``in_order``, at once or never.

        Nothing in the classic protocol distinguishes the end of a transaction from a late one of the transaction
        before.
        """
        chance = self.chance
        if chance.random() < self._lost:
            return
        for _ in range(2 if chance.random() < self._repeated and not in_order else 1):
            slow = chance.random() < self._slow and not in_order
            self.schedule.after(chance.randint(500, 8_000) if slow else chance.randint(0, 5), deliver)

    # Partitions.

    def _verify(self, request: VerifyRequest, respond: Callable[[list[ErrorCode]], None]) -> None:
        def verified(response: Any) -> None:
            lost = [E.network_exception] * len(request.partitions)
            errors = lost if response is None else list(response.errors)
            self.schedule.after(self.chance.choice([0, 1, 40]), lambda: respond(errors))

        self.schedule.after(self.chance.randint(0, 3), lambda: self.actor.request(request, verified))

    def _send_markers(self, request: MarkerRequest, epoch: int) -> None:
        for place in request.partitions:
            self._send_marker(request, epoch, place)

    def _send_marker(self, request: MarkerRequest, epoch: int, place: TopicPartition) -> None:
        chance, partition = self.chance, self.partitions[place]
        incarnation = partition.incarnation
        marker = Marker(
            request.producer_id,
            request.producer_epoch,
            epoch,
            request.commit,
            request.transaction_version,
            request.decision,
        )
        lost = chance.random() < self._lost * 3

        def arrives(responds: bool) -> None:
            if partition.incarnation != incarnation:  # its connection is closed with it
                error = E.network_exception
            else:
                self.note("marker %s for %s", marker, place)
                error = partition.mark(marker)
            if responds:
                self.actor.marked(request, epoch, place, error)

        if lost:
            self.schedule.after(
                chance.randint(1, 50), lambda: self.actor.marked(request, epoch, place, E.network_exception)
            )
        if not lost or chance.random() < 0.5:
            slow = chance.random() < self._slow or lost
            delay_ms = chance.randint(10, 4_000) if slow else chance.randint(0, 5)
            self.schedule.after(delay_ms, lambda: arrives(not lost))

    # What goes wrong.

    def _trouble_begins(self) -> None:
        chance, faults = self.chance, self.actor.faults
        rough = chance.choice([0.0, 0.5, 1.0, 3.0])
        faults.slow_write = 0.01 * rough
        faults.failed_write = 0.002 * rough
        faults.refused_write = 0.004 * rough
        for mishap, every_ms in (
            (self._coordinator_ends, chance.choice([1_000, 5_000, 10**7])),
            (self._partition_restarts, chance.choice([1_000, 5_000, 10**7])),
        ):
            self._every(every_ms, mishap)

    def _every(self, mean_ms: int, do: Callable[[], None]) -> None:
        def happens() -> None:
            if self.faulty:
                do()
                self._every(mean_ms, do)

        self.schedule.after(self.chance.randint(1, 2 * mean_ms), happens)

    def _coordinator_ends(self) -> None:
        end = self.chance.choice([self.actor.die, self.actor.die, self.actor.resign])
        end(self.chance.choice([0, 100, 2_000]))

    def _partition_restarts(self) -> None:
        partition = self.chance.choice([*self.partitions.values()])
        self.note("%s restarts", partition.place)
        partition.restart()
        self.schedule.after(self.chance.choice([10, 500, 3_000]), lambda: setattr(partition, "up", True))

    def _heal(self) -> None:
        """Without faults, everything ends: open transactions time out, decided ones are completed."""
        self.faulty = False
        self._lost = self._repeated = self._slow = 0.0
        faults = self.actor.faults
        faults.slow_write = faults.failed_write = faults.refused_write = 0.0
        end_ms = self.schedule.now_ms + HEALING_MS
        self.schedule.at(end_ms, lambda: None)
        while self.schedule.now_ms < end_ms and self._step():
            pass
        core = self.actor.core
        if core is None or core.sendings or core.hard_state.ongoing:
            raise broken("nothing_hangs", f"{core and (core.sendings, core.hard_state.ongoing)}")
        if self.actor.waiting:
            raise broken("every_request_is_answered", f"{self.actor.waiting} wait")
        rules.check_end(self.partitions, self.promises)
