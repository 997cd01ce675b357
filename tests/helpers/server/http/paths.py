"""Paths of the server, with values for their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tests.helpers.server.walk import Belongings

NOUNS: Final = {
    "agents": "agent",
    "sessions": "session",
    "links": "link",
    "envelopes": "envelope",
    "approvals": "approval",
    "fingerprints": "hash",
    "audit": "record",
    "keys": "agent",
    "tool-sources": "agent",
    "deliveries": "delivery",
    "people": "person",
    "runs": "run",
    "schedules": "schedule",
    "credentials": "credential",
    "delegations": "delegation",
}
"""The kind of an id in a path, by the noun before it."""
PARAMETERS: Final = {"path": "secret.txt", "version": "1", "turn": "turn-1", "name": "shelf", "number": "0"}
"""The other parameters of paths: of no owner, and the same for all."""


def paths_of(document: dict[str, Any], belongings: Belongings) -> Iterator[tuple[str, str]]:
    """Yield each template that names something of somebody's, and the path with what it names.

    A noun or a parameter that this does not know fails: whoever adds one says here whose it is.
    """
    for template in [*document["paths"], "/mcp/agents/{id}", "/mcp/sessions/{id}"]:
        if template.startswith("/v1/connections/{name}"):  # each caller's own
            continue
        noun = re.match(r"(?:/v1|/mcp)/([\w-]+)/\{(?:id|hash)\}", template)
        if noun is None:
            assert "{" not in template, f"whose is what {template} names?"
        elif noun[1] != "capabilities":  # which are everybody's
            target = getattr(belongings, NOUNS[noun[1]])
            path = template.replace("{id}", target).replace("{hash}", target).replace("{other}", target)
            yield template, re.sub(r"\{(\w+)\}", lambda match: PARAMETERS[match[1]], path)
