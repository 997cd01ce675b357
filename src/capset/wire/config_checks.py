"""The result of checking a configuration file without using it (spec 4, G28; spec 5, P12)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from capset.definitions.tools.options import Effect
from capset.wire.allowances import AllowanceShape
from capset.wire.shapes import Shape


class ConfigInput(Shape):
    """The text of a configuration file, at most 262,144 letters, and what it is written in."""

    model_config = ConfigDict(strict=True)

    content: Annotated[str, Field(max_length=262_144)]
    format: Literal["yaml", "json", "toml"]


class ProblemShape(Shape):
    """What is wrong, or worth a second look: on which line, from 1, at which member, in which action."""

    line: int | None
    path: str
    action: str | None
    message: str


class ActionCheck(Shape):
    """An action as it would be served. ``source`` is its handler, or ``CAPABILITY.TOOL``."""

    name: str
    title: str | None
    description: str
    effect: Effect
    permissions: list[str]
    limits: list[str]
    approval: str
    source: str
    line: int


class ConfigCheckShape(Shape):
    """Everything that is wrong; where that is nothing, what would be served, too. ``capset check --json`` prints it."""

    valid: bool
    problems: list[ProblemShape]
    warnings: list[ProblemShape]
    agent: str | None = None
    capabilities: list[str] | None = None
    actions: list[ActionCheck] | None = None
    allowance: AllowanceShape | None = None

    def said(self) -> dict[str, Any]:
        """Return plain JSON data: a null is data, and unset members are omitted."""
        return self.model_dump(mode="json", exclude_unset=True)
