"""The controller, which takes leader epochs for copies, and the reconciler."""

from __future__ import annotations

from collections.abc import Callable

from kazoo.exceptions import KazooException

from muster.actors.offsets.held import Known, news
from muster.actors.offsets.serving import ServedPartition
from muster.actors.reconciler.reconciler import Reconciler
from muster.placement.epochs import ActorEpoch, Superseded, next_epoch, take_controller_epoch
from muster.placement.mapping.registration import Registration
from muster.placement.view import OFFSETS_TOPIC
from muster.placement.zookeeper.client import ZooKeeperUnreachable
from tests.simulation.processes.acknowledged import Acknowledged
from tests.simulation.processes.copies import PARTITION, Copy
from tests.simulation.processes.process import Machine, Process
from tests.simulation.processes.zookeeper_client import Ensemble


class Controller(Process):
    """Takes leader epochs for copies. There may be two controllers, one of which does not know of the other."""

    def __init__(self, machine: Machine, name: str, ensemble: Ensemble, acknowledged: Acknowledged) -> None:
        super().__init__(machine, name)
        self._ensemble = ensemble
        self._acknowledged = acknowledged
        self._mine: ActorEpoch | None = None
        self.busy = False
        self.superseded = False
        self.after(0, self._start)

    def _start(self) -> None:
        self._zk = self._ensemble.client("simulated:2181")
        self._zk.start_async()

    def take_epoch(self, owner: str, then: Callable[[int], None]) -> None:
        """Call ``then`` with a new leader epoch, if one is available now."""
        if self.busy or self.superseded:
            return
        self.busy = True

        def work() -> None:
            try:
                if self._mine is None:
                    self._mine = take_controller_epoch(self._zk)
                epoch = next_epoch(self._zk, OFFSETS_TOPIC, PARTITION, owner, holder=self._mine)
            except Superseded:
                self.machine.note("%s is superseded", self.name)
                self.superseded = True
            except (ZooKeeperUnreachable, KazooException) as error:
                self.machine.note("%s gets no epoch: %s", self.name, repr(error))
            else:
                self._acknowledged.epoch_given(epoch)
                then(epoch)
            finally:
                self.busy = False

        self.after(0, lambda: self.start_thread(work))


class ReconcilerProcess(Process):
    """The real reconciler. ``target``: the coordinator, as far as it knows."""

    def __init__(self, machine: Machine, name: str) -> None:
        super().__init__(machine, name)
        self.target: Copy | None = None
        self._known = Known()
        self.after(0, self._start)

    def _start(self) -> None:
        self.reconciler = Reconciler("simulated:2181", 3_000, self._registrations)
        self.loop.create_task(self.reconciler.run())

    async def _registrations(self) -> dict[int, tuple[Registration, ...]]:
        target = self.target
        if target is None or not target.alive:
            return {}
        response = self.loop.create_future()
        known = self._known.versions().get(PARTITION)

        def query() -> None:
            cores = [served.core for served in target.host.served(ServedPartition).values()]
            said = {core.partition: news(core.registrations(), known) for core in cores}
            self.after(1, lambda: None if response.done() else response.set_result(said))

        target.after(1, query)
        self.after(5_000, lambda: None if response.done() else response.set_result({}))
        return {each: self._known.take(each, some) for each, some in (await response).items()}
