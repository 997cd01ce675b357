"""Questions of handlers to the client that made their call (spec 7, M12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel
from typing_extensions import TypeVar

from capset.definitions.calls.clients import CallClient, ClientAnswer, ClientQuestion
from capset.errors import ClientCapabilityMissing

FORMS: Final[Mapping[str, Any]] = {"elicitation": {"form": {}}}
"""The capability of a client that shows forms, as MCP declares it."""

M = TypeVar("M", bound=BaseModel)


async def ask_client(client: CallClient | None, question: ClientQuestion[M]) -> ClientAnswer[M]:
    """Return the answer to a question. Raises ``ClientCapabilityMissing`` if there is no client that shows forms."""
    if client is None:
        raise ClientCapabilityMissing(
            f"This tool has to ask the person who calls it ({question.message!r:.200}), who cannot be asked here.",
            required=FORMS,
            hint="call it with an MCP client that shows forms",
        )
    if not has_forms(client.capabilities):
        raise ClientCapabilityMissing(
            f"This tool has to ask the person who calls it ({question.message!r:.200}), but the client declares that "
            "it shows no forms.",
            required=FORMS,
            hint="use a client with the capability elicitation",
        )
    return await client.ask(question)


def require_capabilities(client: CallClient | None, names: Iterable[str]) -> None:
    """Raise ``ClientCapabilityMissing`` unless a client has all of these capabilities. A dot separates nested names."""
    declared: Mapping[str, Any] = {} if client is None else client.capabilities
    for name in names:
        path, node = _path(name), cast("Any", declared)
        for step in path:
            if not isinstance(node, Mapping) or cast("Mapping[str, Any]", node).get(step) is None:
                raise ClientCapabilityMissing(
                    f"This tool needs a client with the capability {name!r}, which this one does not declare.",
                    required=_nested(path),
                    hint="use an MCP client that declares it",
                )
            node = cast("Mapping[str, Any]", node)[step]


def has_forms(capabilities: Mapping[str, Any]) -> bool:
    """Return whether a client shows forms. A declaration without modes means forms, which were once the only mode."""
    declared = capabilities.get("elicitation")
    if not isinstance(declared, Mapping):
        return False
    modes = cast("Mapping[str, Any]", declared)
    return modes.get("form") is not None or modes.get("url") is None


def _path(name: str) -> list[str]:
    """Return the steps of a name. The id of an extension may itself contain dots."""
    first, _, rest = name.partition(".")
    return [first, *([rest] if first in ("extensions", "experimental") and rest else rest.split(".") if rest else [])]


def _nested(path: list[str]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for step in reversed(path):
        nested = {step: nested}
    return nested
