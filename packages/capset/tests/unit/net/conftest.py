from tests.helpers.net.fixtures import anyio_backend

__all__ = ["anyio_backend"]
