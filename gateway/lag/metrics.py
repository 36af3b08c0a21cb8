"""The lag of consumer groups in a scrape, computed while it runs.

One gateway reports each offsets partition (:func:`muster.gateway.metrics.groups.exposed_here`), so that over all
gateways every group has its series once.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.gateway.attribution.series import group_label
from muster.gateway.lag.groups import GroupLag, lags_of
from muster.gateway.listener.gateway import Gateway
from muster.gateway.metrics.exposition import Exposition, labels
from muster.gateway.metrics.families import LAG
from muster.gateway.metrics.groups import DEADLINE_S, exposed_here


@dataclass(frozen=True, slots=True)
class LagScrape:
    """The groups of one gateway."""

    groups: list[GroupLag]
    max_series: int
    """Partitions of groups with series of their own; the others count in the series of their group alone."""
    is_partial: bool = False
    """Whether a log did not respond to all. A group has no sum and no largest value that would be too small then."""

    def write(self, out: Exposition) -> None:
        """Write all families. Slow with many groups: for a thread."""
        out.begin(LAG)
        left = self.max_series
        for each in sorted(self.groups, key=lambda each: each.group):  # the same ones in each scrape
            group = labels(group=group_label(each.group))
            of_group = each.total()
            if self.is_partial and any(partition.lag is None for partition in each.partitions):
                of_group = of_group._replace(lag=None, lag_s=None)
            elif self.is_partial and any(partition.lag and partition.lag_s is None for partition in each.partitions):
                of_group = of_group._replace(lag_s=None)
            is_known = not self.is_partial or all(other.messages is not None for other in each.without_commit)
            if is_known and (each.partitions or each.without_commit):
                out.add("muster_group_partitions_without_commit", group, of_group.without_commit)
            if of_group.lag is not None and of_group.partitions:
                out.add("muster_group_total_lag_messages", group, of_group.lag)
                out.add("muster_group_partitions_behind", group, of_group.behind)
            if of_group.lag_s is not None:
                out.add("muster_group_max_lag_seconds", group, of_group.lag_s, is_largest=True)
            for topic, partition, lag, lag_s in each.partitions[: max(left, 0)]:
                here = f"{group}{labels(topic=topic, partition=partition)}"
                if lag is not None:
                    out.add("muster_group_lag_messages", here, lag)
                if lag_s is not None:
                    out.add("muster_group_lag_seconds", here, lag_s, is_largest=True)
            left -= len(each.partitions)
        out.add("muster_folded_lag_series", "", max(-left, 0))


async def scrape_lag(gateway: Gateway) -> LagScrape:
    """Query coordinators, then logs, for DEADLINE_S each. What does not respond is left out."""
    up = [each for each in exposed_here(gateway.view, gateway.id) if gateway.view.offsets[each] is not None]
    found = await lags_of(gateway, DEADLINE_S, up)
    return LagScrape(found.groups, gateway.config.metrics_max_group_series, bool(found.silent))
