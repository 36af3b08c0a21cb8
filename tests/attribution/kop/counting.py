"""How KoP counts labelled data: a model of its request path and of its metrics, since KoP cannot run here.

From streamnative/kop: ``ReplicaManager.fetchMessage`` and ``DelayedFetch.onComplete`` (each reads, and counts what it
read), ``PartitionLogManager.getLog`` (a partition's name is that of its first client),
``PrometheusTextFormatUtil.writeLabelsNoBraces`` (no escaping), ``rotateLatencyCollectionAndExpire`` (no counter goes).
"""

from __future__ import annotations

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families


class KopCounters:
    """``kop_server_BYTES_OUT`` of one broker."""

    def __init__(self) -> None:
        self.bytes_out: Counter[tuple[str, str]] = Counter()
        """By topic, under KoP's name for it, and group."""
        self._names: dict[object, str] = {}

    def read(self, partition: object, named: str, group: str, size_bytes: int) -> None:
        """Entries of a partition were decoded for a response; the client named the topic ``named``."""
        self.bytes_out[self._names.setdefault(partition, named), group] += size_bytes

    def fetch(self, partition: object, named: str, group: str, *found_bytes: int) -> None:
        """Count a Fetch that found the first amount and, if less than fetch.min.bytes, the second one at its end."""
        for size_bytes in found_bytes:
            self.read(partition, named, group, size_bytes)

    def scrape(self) -> str:
        """Return the text that KoP gives to Prometheus."""
        return "".join(
            f'kop_server_BYTES_OUT{{topic="{topic}",group="{group}"}} {size_bytes}\n'
            for (topic, group), size_bytes in self.bytes_out.items()
        )

    def scraped(self) -> dict[tuple[str, str], float]:
        """Return a scraper's reading of it. Raises ValueError if it is unreadable."""
        families = text_string_to_metric_families(self.scrape())
        samples = [sample for family in families for sample in family.samples]
        if any(sample.name != "kop_server_BYTES_OUT" for sample in samples):
            raise ValueError("there are series that were not counted")
        return {(sample.labels["topic"], sample.labels["group"]): sample.value for sample in samples}
