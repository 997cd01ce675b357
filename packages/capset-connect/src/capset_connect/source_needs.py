"""What an MCP server or an API needs before its tools can be used, and the command that mends it (spec 7, M27)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from capset.errors import counted
from capset_connect.openapi.api import OpenApi
from capset_connect.pins import SeenSource
from capset_connect.sources import Source

ANY_FILE: Final = " --agent FILE"
"""The options of a command for readers who may not see where the configuration file and the database are."""


@dataclass(frozen=True, slots=True)
class SourceNeed:
    """What keeps the tools of a source from being used.

    ``message`` has only numbers and the names of secrets, so that callers without rights may read it. ``detail`` may
    have addresses, paths and output of the source. ``verb`` is that of the ``capset mcp`` command that mends it.
    """

    key: str
    message: str
    detail: str | None = field(default=None, compare=False)
    verb: str | None = None
    secrets: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The message with its detail."""
        return self.message if self.detail is None else f"{self.message}: {self.detail}"

    def remedy(self, options: str) -> str | None:
        """Return the command that mends it. ``options``, each after a space, name the file and the database."""
        if self.secrets:
            return " ".join(["export", *(f"{name}=…" for name in self.secrets)])
        if self.verb is None:
            return None
        argument = "" if self.verb == "list" else f" {shlex.quote(self.key)}"
        return f"capset mcp {self.verb}{options}{argument}"

    def line(self, options: str, *, is_public: bool = False) -> str:
        """Return it in one line, with its remedy; without the detail if ``is_public``."""
        remedy = self.remedy(options)
        text = self.message if is_public else self.text
        return text if remedy is None else f"{text}, run: {remedy}"


def need_of(report: SeenSource[Source], unset: Sequence[str] = ()) -> SourceNeed | None:
    """Return what a source needs first, or ``None`` if its approved tools can be used.

    ``unset`` are the secrets that it names and that are not set.
    """
    key = report.source.pin_key
    if unset:
        names = " and ".join(unset)
        message = f"secret {names} is not set" if len(unset) == 1 else f"secrets {names} are not set"
        return SourceNeed(key, message, secrets=tuple(unset))
    if report.problem is not None:
        return SourceNeed(key, "unreachable", report.problem)
    if report.unmatched:
        return SourceNeed(key, "its declaration names what it does not have", "; ".join(report.unmatched), "list")
    offered = [tool for tool in report.tools if tool.offer is not None]
    changed = [tool for tool in offered if tool.state == "changed"]
    if changed:
        return SourceNeed(key, f"quarantined: {counted(len(changed), 'tool')} changed", verb="diff")
    if offered and not any(tool.state == "approved" for tool in offered):
        return SourceNeed(key, approvals_text(report), verb="approve")
    if not report.is_listed and not report.tools and _has_tools(report.source):
        return SourceNeed(key, "no tool approved", verb="approve")
    return None


def approvals_text(report: SeenSource[Source]) -> str:
    """Return how many of the tools that a source offers are approved: ``2 of 13 tools approved``."""
    offered = [tool for tool in report.tools if tool.offer is not None]
    approved = [tool for tool in offered if tool.state == "approved"]
    return f"{len(approved)} of {counted(len(offered), 'tool')} approved"


def _has_tools(source: Source) -> bool:
    """Return whether a source may have more to offer than resources, which need no approval."""
    return isinstance(source, OpenApi) or source.tools is None or bool(source.tools or source.prompts)
