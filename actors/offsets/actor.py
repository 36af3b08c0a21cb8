"""The Ray actor ``offsets-<p>``: one partition of ``__consumer_offsets`` and the groups that hash to it."""

from __future__ import annotations

from collections.abc import Collection

from muster.actors.audit.commits import CommitKey as CommitKey
from muster.actors.audit.commits import Step
from muster.actors.audit.members import Period
from muster.actors.audit.outbox import Batch
from muster.actors.offsets.held import Version, news
from muster.actors.offsets.serving import OffsetsOpener, ServedPartition
from muster.actors.runtime.process import now_ms
from muster.actors.serving.actor import CoordinatorActor
from muster.placement.mapping.registration import Registration
from muster.placement.view import OFFSETS, OFFSETS_TOPIC


class OffsetsActor(CoordinatorActor):
    """See the module."""

    kind = OFFSETS
    topic = OFFSETS_TOPIC

    def _opener(self) -> OffsetsOpener:
        return OffsetsOpener(self.settings, self.secret)

    async def registrations(self, known: Version | None = None) -> tuple[Registration, ...] | None:
        """Which client consumes for which group, or None if ``known`` is current.

        Raises NotServing while a standby serves.
        """
        return news(self._host.find(ServedPartition, self.name).core.registrations(), known)

    async def audit_steps(self, session: str, received: int) -> Batch[CommitKey, Step]:
        """Return the commits that were seen: see :meth:`Outbox.take`. Raises NotServing while a standby serves."""
        return self._host.find(ServedPartition, self.name).steps.take(session, received)

    async def audit_members(self, groups: Collection[str]) -> dict[str, tuple[Period, ...]]:
        """When these groups had members: see :meth:`MemberPeriods.of`. Raises NotServing while a standby serves."""
        return self._host.find(ServedPartition, self.name).members.of(groups, now_ms())
