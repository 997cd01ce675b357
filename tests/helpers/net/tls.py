"""The certificate of a server, and where its authority is trusted."""

from __future__ import annotations

import ssl
from pathlib import Path

from tests.certificates import certificate


class Tls:
    """A certificate of its own for a host; ``named`` is what clients asked for in their greeting."""

    def __init__(self, folder: Path, host: str = "shop.example") -> None:
        public, private = certificate(host)
        path = folder / "both.pem"
        path.write_text(public + private)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(path)
        self.server.sni_callback = lambda _, server_name, __: self.named.append(server_name)
        self.public = public
        self.client = ssl.create_default_context(cadata=public)
        self.named: list[str | None] = []
