"""Preparation of a bucket for a start: whether it is fit for Muster, and whose data are there."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import javaproperties

from muster.actors.log.bucket.copies import refuse_originals
from muster.actors.log.errors import StorageError
from muster.actors.object_storage.bucket import Bucket
from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import NoSuchObject, ObjectStorageError, ObjectStore, Taken
from muster.actors.runtime.storage import META, cluster_id_in
from muster.actors.runtime.storage.buckets import Repeating, check_bucket, repeated
from muster.actors.runtime.storage.promises import Finding
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.storage import directory

_HINT = "check the bucket's name and rights, and endpoint and credentials in the environment"


def findings_of(uri: str, *, thorough: bool) -> list[Finding]:
    """Try what the bucket must promise. Raises CliError if it cannot be written and read."""
    try:
        return asyncio.run(check_bucket(Bucket(Location.parse(uri)), thorough=thorough))
    except ObjectStorageError as error:
        raise CliError(f"{uri} cannot be used: {error}; {_HINT}") from error


def cluster_id_of(uri: str, storage: Path) -> str:
    """Return the id of the cluster whose data are in the bucket, generated if there are none.

    ``storage``: the directory of this node, which may be empty. Raises CliError if it belongs to another cluster, or
    has logs that are no copies.
    """
    try:
        refuse_originals(storage / "logs")
        return asyncio.run(_cluster_id(ObjectStore(Repeating(Bucket(Location.parse(uri)))), uri, storage))
    except StorageError as error:
        raise CliError(str(error)) from error
    except ObjectStorageError as error:
        raise CliError(f"{uri} cannot be used: {error}; {_HINT}") from error


async def _cluster_id(store: ObjectStore, uri: str, storage: Path) -> str:
    try:
        found = (await store.read(META)).content
    except NoSuchObject:
        known = directory.cluster_id(storage)
        properties = {"version": str(directory.FORMAT_VERSION), "cluster.id": known}
        found = javaproperties.dumps(properties, timestamp=False).encode("ascii")
        try:
            await repeated(partial(store.create, META, found))  # a conflict that left nothing has none either
        except Taken:  # by a start on another machine
            found = (await store.read(META)).content
    known = javaproperties.loads(found.decode("ascii")).get("cluster.id", "")
    own = cluster_id_in(storage)
    if own is None:
        directory.write_cluster_id(storage, known)
    elif own != known:
        raise CliError(
            f"{storage} belongs to cluster {own}, and {uri} to cluster {known}; choose another directory with "
            "--set storage.object.cache.path=DIR"
        )
    return known
