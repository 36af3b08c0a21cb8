"""The Ray actor ``log-<i>``: the topic partitions that :meth:`ClusterView.log_of` assigns to it."""

from __future__ import annotations

from muster.actors.log.cumulative_size import CumulativeSizes, TopicPartition
from muster.actors.log.role import LogOpener, ServedLogs
from muster.actors.serving.actor import RoleActor


class LogActor(RoleActor):
    """See the module."""

    kind = "log"
    watches_controller = True

    def _opener(self) -> LogOpener:
        return LogOpener(self.settings, self.secret, self.name)

    async def audit_cumulative_sizes(
        self, queries: list[tuple[TopicPartition, tuple[int, ...]]]
    ) -> dict[TopicPartition, CumulativeSizes]:
        """Cumulative sizes: see :meth:`Partitions.cumulative_sizes`. Raises NotServing while a standby serves."""
        return await self._host.find(ServedLogs, self.name).partitions.cumulative_sizes(queries)
