from __future__ import annotations

import pytest

from muster.actors.object_storage.location import Location, NotALocation, is_uri


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("s3://bucket", Location("s3", "bucket", "")),
        ("s3://bucket/", Location("s3", "bucket", "")),
        ("gs://my.bucket-1/muster/prod/", Location("gs", "my.bucket-1", "muster/prod")),
        ("az://container/a", Location("az", "container", "a")),
    ],
)
def test_parts(uri: str, location: Location) -> None:
    assert Location.parse(uri) == location
    assert Location.parse(str(location)) == location


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("http://host/bucket", "the scheme is none of s3://, gs://, az://"),
        ("s3://", "'' is not the name of a bucket"),
        ("s3://Bucket", "'Bucket' is not the name of a bucket"),
        ("s3://bucket:80/a", "'bucket:80' is not the name of a bucket"),
        ("s3://bucket/a//b", "'' cannot be part of a prefix"),
        ("s3://bucket/../other", "'..' cannot be part of a prefix"),
        ("s3://bucket/a b", "'a b' cannot be part of a prefix"),
        ("s3://bucket/a#b", "only a bucket and a prefix can be given"),
    ],
)
def test_others_are_refused(uri: str, why: str) -> None:
    with pytest.raises(NotALocation, match=why.replace(".", r"\.")):
        Location.parse(uri)


@pytest.mark.parametrize("uri", ["s3://key:hidden@bucket/a", "az://bucket/a?sig=hidden", "http://bucket/?sig=hidden"])
def test_no_secret_is_shown(uri: str) -> None:
    with pytest.raises(NotALocation) as refused:
        Location.parse(uri)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(("path", "is_one"), [("s3://a", True), ("file:///a", True), ("/s3:/a", False), ("a", False)])
def test_what_a_uri_is(path: str, is_one: bool) -> None:
    assert is_uri(path) == is_one
