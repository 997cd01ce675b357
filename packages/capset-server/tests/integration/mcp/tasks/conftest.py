from tests.helpers.server.mcp.tasks.fixtures import ada, nothing_is_done, shared

__all__ = ["ada", "nothing_is_done", "shared"]
