from tests.helpers.server.console.fixtures import browser, store

__all__ = ["browser", "store"]
