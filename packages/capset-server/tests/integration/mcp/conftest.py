from tests.helpers.server.mcp.fixtures import anyio_backend, era, nothing_is_left_behind

__all__ = ["anyio_backend", "era", "nothing_is_left_behind"]
