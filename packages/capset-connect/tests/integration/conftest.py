from tests.helpers.connect.fixtures import anyio_backend, store

__all__ = ["anyio_backend", "store"]
