"""Whatever happens at any request to object storage: nothing acknowledged is lost, and nothing else is read."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.actors.log.bucket import copies, role
from muster.actors.log.bucket.copies import Copy
from muster.actors.log.bucket.manifest import BucketManifest, ManifestObject, StoredSegment
from muster.actors.log.bucket.role import RoleLogs
from muster.actors.log.bucket.storage import BucketStorage
from muster.actors.log.files.manifest import Manifest
from muster.actors.log.files.segment import Segment
from muster.actors.log.wal.objects import Entry
from tests.log.bucket.events import WORK, Work, counted, killed, overtaken, unanswered
from tests.log.bucket.requests import release_all
from tests.log.support import run

Event = Callable[..., Coroutine[Any, Any, None]]
EVENTS: dict[str, Event] = {
    "killed before it takes effect": partial(killed, before=True),
    "killed before the response": partial(killed, before=False),
    "another leader": partial(overtaken, at_once=True),
    "another leader, which works later": partial(overtaken, at_once=False),
    "no effect and no response": partial(unanswered, before=True),
    "no response": partial(unanswered, before=False),
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.actors.log.wal.patience._FIRST_S", 0.0)


def happened(folder: Path, work: Work, event: Event, step: int = 1, first: int = 0) -> None:
    """Run the work once for each ``step``-th of its requests, at which the event happens."""
    total = len(run(counted(folder / "counted", work)))
    for at in range(first, total, step):
        try:
            run(event(folder / f"{at}", work, at))
        finally:
            release_all()


@pytest.mark.ring(name="object-storage")
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("name", WORK)
def test_at_any_request(tmp_path: Path, name: str, event: str) -> None:
    happened(tmp_path, WORK[name], EVENTS[event])


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("name", WORK)
def test_at_some_requests(tmp_path: Path, name: str, event: str) -> None:
    happened(tmp_path, WORK[name], EVENTS[event], step=17, first=len(event) % 17)


Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledge_at_once(patch: pytest.MonkeyPatch) -> None:
    append = BucketStorage.append
    patch.setattr(BucketStorage, "append", lambda *args: append(*args) and None)


def collect_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RoleLogs, "_needed", lambda self: self.wal.next_number)


def forget_what_was_recovered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BucketStorage, "recovered", lambda *_: None)


def list_without_upload(patch: pytest.MonkeyPatch) -> None:
    async def upload(self: BucketStorage, segment: Segment) -> None:
        stored = StoredSegment(name=segment.name, end=segment.next_offset, modified_ms=0, files={".log": 1})
        self._stored[segment.name] = stored

    patch.setattr(BucketStorage, "_upload", upload)


def list_the_active_segment_as_covered(patch: pytest.MonkeyPatch) -> None:
    publish = BucketStorage.publish

    async def publish_more(self: BucketStorage, manifest: Manifest, added: Segment | None) -> None:
        await publish(self, Manifest(**{**_fields(manifest), "base_offset": manifest.base_offset + 1}), added)

    patch.setattr(BucketStorage, "publish", publish_more)


def _fields(manifest: Manifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in Manifest.__slots__}


def remove_before_the_manifest(patch: pytest.MonkeyPatch) -> None:
    publish = BucketStorage.publish

    async def remove_first(self: BucketStorage, manifest: Manifest, added: Segment | None) -> None:
        await self.remove([name for name in self._stored if name not in manifest.ends])
        await publish(self, manifest, added)

    patch.setattr(BucketStorage, "publish", remove_first)


def only_read_the_manifest(patch: pytest.MonkeyPatch) -> None:
    replace = ManifestObject.replace

    async def first_not(self: ManifestObject, content: BucketManifest) -> None:
        if content.epoch == self.content.epoch:
            await replace(self, content)
        else:
            self.content = content

    patch.setattr(ManifestObject, "replace", first_not)


def replace_any_manifest(patch: pytest.MonkeyPatch) -> None:
    async def put(self: ManifestObject, content: bytes) -> str:
        return str(self._store._backend.bucket.put(self._name, content))  # type: ignore[attr-defined]

    patch.setattr(ManifestObject, "_write", put)


def leave_out_the_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(role, "rebuilt", lambda *_: [])


def repeat_what_is_in_segments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(role, "rebuilt", lambda _, entries: [*entries])


def trust_the_copy(patch: pytest.MonkeyPatch) -> None:
    make = Copy.make

    async def leave_it(self: Copy, manifest: BucketManifest, tail: list[Entry]) -> None:
        if not self._directory.exists():
            await make(self, manifest, tail)

    patch.setattr(Copy, "make", leave_it)


def read_one_entry_less(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(role, "rebuilt", lambda *args: copies.rebuilt(*args)[:-1])


PLANTED: list[Plant] = [
    acknowledge_at_once,
    collect_everything,
    forget_what_was_recovered,
    list_without_upload,
    list_the_active_segment_as_covered,
    remove_before_the_manifest,
    only_read_the_manifest,
    replace_any_manifest,
    leave_out_the_tail,
    repeat_what_is_in_segments,
    trust_the_copy,
    read_one_entry_less,
]


@pytest.mark.ring(name="object-storage")
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(tmp_path: Path, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for name, work in WORK.items():
        for event in EVENTS:
            try:
                happened(tmp_path / name / event, work, EVENTS[event], step=5)
            except Exception:
                return
    pytest.fail(f"{plant.__name__} was not found")


def test_a_manifest_is_refused_by_name_unless_it_is_one() -> None:
    manifest = BucketManifest(epoch=3, change=4, writer="w", base_offset=5)
    assert BucketManifest.decode("m", manifest.encode()) == manifest
    for content, reason in ((b"{", "is not readable"), (b'{"version": 2}', "a newer Muster wrote"), (b"[]", "is not")):
        with pytest.raises(Exception, match=f"m.*{reason}"):
            BucketManifest.decode("m", content)
