"""Properties of the connection to ZooKeeper. Names and defaults as in Kafka 3.9, which had ZooKeeper."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field, field_validator, model_validator

from muster.actors.config.types import Bool, Int, Text
from muster.placement.zookeeper.access import Access
from muster.placement.zookeeper.ensemble import SERVERS


class ZooKeeperProperties(BaseModel):
    """A part of :class:`muster.actors.config.properties.MusterConfig`."""

    zookeeper_connect: Text | None = Field(
        None, description="HOST:PORT[,HOST:PORT...][/CHROOT] of a ZooKeeper; none: Muster runs its own."
    )
    zookeeper_server_lib: Text | None = Field(
        None,
        description="Folder with the jars of the ZooKeeper that Muster runs, such as lib of a distribution of 3.9; "
        "none: those that pyspark has.",
    )
    zookeeper_server_count: Int | None = Field(
        None,
        description="Number of ZooKeeper servers that Muster runs, 1 or 3. None: what there is already; for a new "
        "cluster, 3 with --address and three nodes or more, else 1. 3, where there is 1: its data are copied to three.",
    )
    zookeeper_server_ports: Text = Field(
        "2181,2888,3888",
        description="Ports of each of three ZooKeeper servers that Muster runs: for clients, for the quorum, for the "
        "leader election. Chosen when the ensemble is new.",
    )
    zookeeper_data_dir: Text = Field(
        "~/.muster/zookeeper",
        description="Directory on each node's own disk for the data of three ZooKeeper servers that Muster runs; the "
        "data of 1 server are in storage.path.",
    )
    zookeeper_set_acl: Bool = Field(
        False,
        description="Whether only Muster may change its nodes in ZooKeeper, and read /config/users, /config/brokers "
        "and ACLs. Needs zookeeper.credentials.file or a certificate. Always so in the ZooKeeper that Muster runs. "
        "Existing nodes: muster zookeeper secure.",
    )
    zookeeper_credentials_file: Text | None = Field(
        None,
        description="File with one line USER:PASSWORD: Muster's digest credentials for ZooKeeper; every node must be "
        "able to read it.",
    )
    zookeeper_ssl_client_enable: Bool = Field(False, description="Whether ZooKeeper is reached over TLS.")
    zookeeper_ssl_keystore_location: Text | None = Field(
        None,
        description="PEM file with Muster's certificate for ZooKeeper and its key, unencrypted; none: no certificate.",
    )
    zookeeper_ssl_truststore_location: Text | None = Field(
        None,
        description="PEM file with the authorities for ZooKeeper's certificate; none: those of the system.",
    )
    zookeeper_ssl_endpoint_identification_algorithm: Text = Field(
        "HTTPS",
        description="HTTPS: ZooKeeper's certificate must be for the host in zookeeper.connect. Empty: it need not.",
    )

    @field_validator("zookeeper_connect")
    @classmethod
    def _not_empty(cls, hosts: str | None) -> str | None:
        if hosts is not None and not hosts.split("/")[0].strip(" ,"):
            raise ValueError("names no host")
        return hosts

    @field_validator(
        "zookeeper_server_lib",
        "zookeeper_credentials_file",
        "zookeeper_ssl_keystore_location",
        "zookeeper_ssl_truststore_location",
    )
    @classmethod
    def _absolute_file(cls, path: str | None) -> str | None:
        return None if path is None else str(Path(path).expanduser().absolute())

    @field_validator("zookeeper_server_count")
    @classmethod
    def _one_or_three(cls, count: int | None) -> int | None:
        if count not in (None, 1, SERVERS):
            raise ValueError(f"must be 1 or {SERVERS}")
        return count

    @field_validator("zookeeper_server_ports")
    @classmethod
    def _three_ports(cls, text: str) -> str:
        ports = _ports(text)
        if len(ports) != 3 or len(set(ports)) != 3 or not all(0 < port < 1 << 16 for port in ports):
            raise ValueError("must be three different ports, such as 2181,2888,3888")
        return text

    @field_validator("zookeeper_data_dir")
    @classmethod
    def _absolute_on_each_node(cls, path: str) -> str:
        if not path.startswith(("/", "~/")):
            raise ValueError("must be absolute, or begin with ~/, the home of Muster's user on each node")
        return path

    @field_validator("zookeeper_ssl_endpoint_identification_algorithm")
    @classmethod
    def _algorithm(cls, name: str) -> str:
        if name.upper() not in ("", "HTTPS"):
            raise ValueError("must be HTTPS or empty")
        return name.upper()

    @model_validator(mode="after")
    def _zookeeper_knows_who_we_are(self) -> ZooKeeperProperties:
        of_tls = {
            "zookeeper.ssl.keystore.location": self.zookeeper_ssl_keystore_location,
            "zookeeper.ssl.truststore.location": self.zookeeper_ssl_truststore_location,
        }
        if not self.zookeeper_ssl_client_enable:
            for name, value in of_tls.items():
                if value is not None:
                    raise ValueError(f"{name} needs zookeeper.ssl.client.enable=true")
        own = {
            "zookeeper.server.lib": "zookeeper_server_lib",
            "zookeeper.server.count": "zookeeper_server_count",
            "zookeeper.server.ports": "zookeeper_server_ports",
            "zookeeper.data.dir": "zookeeper_data_dir",
        }
        for name, field in own.items():
            if self.zookeeper_connect is not None and getattr(self, field) != type(self).model_fields[field].default:
                raise ValueError(f"{name} has no effect with zookeeper.connect: Muster runs no ZooKeeper then")
        if self.zookeeper_set_acl and not (self.zookeeper_credentials_file or self.zookeeper_ssl_keystore_location):
            raise ValueError(
                "zookeeper.set.acl needs zookeeper.credentials.file or zookeeper.ssl.keystore.location: "
                "without an identity Muster could not change its own nodes"
            )
        if self.zookeeper_connect is None and (self.zookeeper_credentials_file or self.zookeeper_ssl_client_enable):
            raise ValueError(
                "zookeeper.credentials.file and zookeeper.ssl.client.enable need zookeeper.connect: "
                "the ZooKeeper that Muster runs has credentials of its own"
            )
        return self

    @property
    def zookeeper_ports(self) -> tuple[int, int, int]:
        """Ports for clients, for the quorum, and for the leader election."""
        client, quorum, election = _ports(self.zookeeper_server_ports)
        return client, quorum, election

    @property
    def zookeeper_access(self) -> Access:
        """How the ZooKeeper of zookeeper.connect is reached."""
        return Access(
            credentials_file=self.zookeeper_credentials_file,
            set_acl=self.zookeeper_set_acl,
            use_tls=self.zookeeper_ssl_client_enable,
            certificate_file=self.zookeeper_ssl_keystore_location,
            authorities_file=self.zookeeper_ssl_truststore_location,
            check_hostname=bool(self.zookeeper_ssl_endpoint_identification_algorithm),
        )


def _ports(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    return [int(part) for part in parts] if all(part.isdecimal() for part in parts) else []
