from tests.helpers.tools.web_fetch.fixtures import anyio_backend

__all__ = ["anyio_backend"]
