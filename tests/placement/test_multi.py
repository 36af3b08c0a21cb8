"""The bytes of a transaction, compared with kazoo's own encoding."""

from __future__ import annotations

from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData, Transaction
from kazoo.security import OPEN_ACL_UNSAFE

from muster.placement.zookeeper.access import ANYONE
from muster.placement.zookeeper.multi import MultiWrite


def test_a_transaction_is_what_kazoo_would_send() -> None:
    kazoos = Transaction(
        [
            CheckVersion("/root/fence", 7),
            SetData("/root/fence", b"", -1),
            Create("/root/a", b"1", OPEN_ACL_UNSAFE, 0),
            Create("/root/a/%E2%82%AC", b"", OPEN_ACL_UNSAFE, 0),
            SetData("/root/b", b"22", 3),
            Delete("/root/c", 4),
        ]
    )
    ours = MultiWrite(
        "/root",
        [
            ("check", "/fence", 7),
            ("set_data", "/fence", b""),
            ("create", "/a", b"1"),
            ("create", "/a/%E2%82%AC", b""),
            ("set_data", "/b", b"22", 3),
            ("delete", "/c", 4),
        ],
        ANYONE.acl_of,
    )
    assert ours.serialize() == bytes(kazoos.serialize())
