from tests.zookeeper_fixture import zk, zk_hosts, zookeeper

__all__ = ["zk", "zk_hosts", "zookeeper"]
