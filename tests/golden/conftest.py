from tests.helpers.server.fixtures import ada, anyio_backend, here, nothing_is_left_behind, shared

__all__ = ["ada", "anyio_backend", "here", "nothing_is_left_behind", "shared"]
