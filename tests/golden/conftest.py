from tests.helpers.server.fixtures import ada, anyio_backend, here, shared

__all__ = ["ada", "anyio_backend", "here", "shared"]
