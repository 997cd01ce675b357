"""The bundle that is installed (spec 1, C1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from capset.definitions.names import CAPABILITY, checked, checked_optional, checked_text, checked_texts
from capset.definitions.tools import Tool
from capset.errors import DefinitionError, ToolNameConflict

Status = Literal["available", "coming_soon", "deprecated", "retired"]
AnyTool = Tool[..., Any]
"""A tool whose parameters and result do not matter here."""


_CLOSING: Final = re.compile(r"<\s*/\s*capability\b", re.IGNORECASE)


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, init=False)
class Capability:
    """Instructions and tools that belong together, under one name.

    Frozen, and told apart by identity. ``coming_soon`` and ``retired`` contribute nothing to an agent, and say so
    (spec 5, P2). On the wire ``id`` and ``name`` are ``name`` and ``title``.
    """

    name: str
    title: str
    description: str
    status: Status
    icon: str | None
    category: str | None
    version: str | None
    instructions: tuple[str, ...]
    tools: tuple[AnyTool, ...]

    def __init__(
        self,
        name: str,
        *,
        title: str | None = None,
        description: str = "",
        status: Status = "available",
        icon: str | None = None,
        category: str | None = None,
        version: str | None = None,
        instructions: Iterable[str] = (),
        tools: Iterable[AnyTool] = (),
    ) -> None:
        """Check and freeze everything. Raises ``DefinitionError`` or ``ToolNameConflict``, naming the capability."""
        owner = f"capability {name!r}"
        checked("a capability's name", name, CAPABILITY)
        if status not in get_args(Status):
            raise DefinitionError(f"{owner}: status must be one of {get_args(Status)}; got {status!r}")
        texts = checked_texts(f"{owner}: instructions", instructions)
        if any(_CLOSING.search(text) for text in texts):
            raise DefinitionError(f"{owner}: instructions must not close the <capability> block that holds them")
        store = object.__setattr__
        store(self, "name", name)
        store(self, "title", checked_optional(f"{owner}: title", title) or name.replace("_", " ").title())
        store(self, "description", checked_text(f"{owner}: description", description))
        store(self, "status", status)
        store(self, "icon", checked_optional(f"{owner}: icon", icon))
        store(self, "category", checked_optional(f"{owner}: category", category))
        store(self, "version", checked_optional(f"{owner}: version", version))
        store(self, "instructions", texts)
        store(self, "tools", _distinct_tools(owner, tools))

    def __repr__(self) -> str:
        return f"Capability({self.name!r})"

    @property
    def contributes(self) -> bool:
        """Whether an agent gets anything of it."""
        return self.status in ("available", "deprecated")


def _distinct_tools(owner: str, tools: Iterable[AnyTool]) -> tuple[AnyTool, ...]:
    kept: dict[str, AnyTool] = {}
    for one in tools:
        if not isinstance(one, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
            raise DefinitionError(f"{owner}: {one!r} is not a Tool; put @tool on the function")
        if kept.setdefault(one.name, one) is not one:
            raise ToolNameConflict(f"{owner}: two different tools are named {one.name!r}; rename one with name=")
    return tuple(kept.values())
