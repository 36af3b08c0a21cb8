from tests.gateway.conftest import fresh, full, served

__all__ = ["fresh", "full", "served"]
