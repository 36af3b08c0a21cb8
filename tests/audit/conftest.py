from tests.gateway.conftest import fresh, full, served
from tests.zookeeper_fixture import zk, zk_hosts, zookeeper

__all__ = ["fresh", "full", "served", "zk", "zk_hosts", "zookeeper"]
