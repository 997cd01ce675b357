"""Strangers with every right of their own try everything on what is another organisation's, and learn nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.helpers.server.http.paths import paths_of
from tests.helpers.server.openapi import explore
from tests.helpers.server.support import ALL_SCOPES, FILES, Site
from tests.helpers.server.town import SECRET, Town, a_town, belongings
from tests.helpers.server.walk import Belongings

OTHER_SECRET: Final = "the-other-treasure-is-in-the-well"
WRITER: Final = (*ALL_SCOPES, "capset:admin")
READER: Final = ("capset:read", "capset:call", "capset:audit")
CONFIG: Final = """
seed = 20260101
suppress-health-check = ["all"]

[generation]
max-examples = 2
database = "none"
"""


@dataclass
class Listening:
    """Hears all that is answered, by who is answered."""

    heard: dict[bytes, bytearray] = field(default_factory=dict[bytes, bytearray])
    asked: int = 0

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return the application, listened to."""

        async def listened(scope: Scope, receive: Receive, send: Send) -> None:
            credential = dict(scope["headers"]).get(b"authorization", b"")
            buffer = self.heard.setdefault(credential, bytearray())
            self.asked += 1

            async def sent(message: Message) -> None:
                buffer.extend(repr(message.get("headers", "")).encode() + message.get("body", b""))
                await send(message)

            await app(scope, receive, sent)

        return listened

    def by(self, site: Site, key: str) -> bytes:
        """Return what was said to who has a key."""
        return bytes(self.heard.get(f"Bearer {site.keys[key]}".encode(), b""))


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncGenerator[tuple[Town, Belongings, Listening]]:
    listener = Listening()
    async with a_town(tmp_path, around=listener.around) as town:
        site = town.site
        await site.key("owner", org="evil", permissions=FILES)
        async with site.client("owner") as owner:
            theirs = await belongings(owner, OTHER_SECRET)
        for org in ("acme", "evil"):
            await site.key(f"writer of {org}", principal=f"writer-{org}", org=org, scopes=WRITER)
            await site.key(f"reader of {org}", principal=f"reader-{org}", org=org, scopes=READER)
        yield town, theirs, listener


def aimed_at(document: dict[str, Any], holdings: Belongings) -> str:
    """Return a configuration by which every path that names something names what is somebody's."""
    sections = list[str]()
    for template, path in paths_of(document, holdings):
        for method, operation in document["paths"].get(template, {}).items():
            named = next(part for part in path.split("/")[3:])
            parameters = {
                f"path.{parameter['name']}": named
                for parameter in operation["parameters"]
                if parameter["name"] in ("id", "hash")
            }
            if any(parameter["name"] == "follow" for parameter in operation["parameters"]):
                parameters["query.follow"] = "false"  # a stream that goes on would hold everything up
            assignments = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in parameters.items())
            sections.append(
                f'[[operations]]\ninclude-name = "{method.upper()} {template}"\nparameters = {{ {assignments} }}\n'
            )
    return CONFIG + "\n" + "\n".join(sections)


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P14", "T20")
@pytest.mark.timeout(900)
async def test_two_organisations_by_two_roles(listening: tuple[Town, Belongings, Listening], tmp_path: Path) -> None:
    town, theirs, heard = listening
    before = await town.rows()
    chosen = ("--phases", "fuzzing", "--checks", "not_a_server_error,status_code_conformance,content_type_conformance")

    async def attack(org: str, role: str) -> None:
        folder = tmp_path / f"{role}-{org}"
        folder.mkdir()
        target = theirs if org == "acme" else town.ada
        await explore(town.site, folder, aimed_at(town.document, target), *chosen, key=f"{role} of {org}")

    for org in ("acme", "evil"):
        await asyncio.gather(attack(org, "writer"), attack(org, "reader"))
    for role in ("writer", "reader"):
        assert SECRET.encode() not in heard.by(town.site, f"{role} of evil")
        assert OTHER_SECRET.encode() not in heard.by(town.site, f"{role} of acme")
    assert SECRET.encode() in heard.by(town.site, "writer of acme"), "it would have been heard"
    gone = before - await town.rows()
    assert not gone, f"what both had has changed: {gone}"
    assert heard.asked > 100
