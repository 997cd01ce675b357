from tests.helpers.client.fixtures import anyio_backend, boss, served, session

__all__ = ["anyio_backend", "boss", "served", "session"]
