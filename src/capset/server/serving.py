"""The old path of ``capset.server.http.uvicorn_server``."""

from capset.server.http.uvicorn_server import bind, make_server, serve

__all__ = ["bind", "make_server", "serve"]
