"""The phases ``identify`` and ``authorize``: who calls, which tool, and whether it is in play (spec 4, G1, G2, G8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from capset.clock import duration_text
from capset.composition.installation import InstalledTool
from capset.errors import (
    CapsetError,
    InvalidArguments,
    NotFound,
    PermissionDenied,
    TooManyRefusals,
    Unauthenticated,
    unknown,
)
from capset.kernel.call.compiled_tools import ACCESS_PHASES, CompiledTool, Step
from capset.kernel.call.invocation import Invocation
from capset.kernel.call.session_context import SessionContext

ANONYMOUS: Final = "anonymous principals are refused"
"""The reason in snapshots and records if ``require_auth`` leaves an anonymous principal without tools."""


def authentication(installed: InstalledTool) -> Step:
    """Refuse anonymous principals if the governance requires it, withdrawn credentials, and floods of calls."""
    return authenticate


def authenticate(call: Invocation) -> Awaitable[None] | None:
    """Refuse callers that may not act here or may not call the tool; the first step of every call."""
    credential = call.options.credential
    if credential is not None and not credential.admits_all and not call.options.depth:
        credential.check_tool(call.compiled.own_name)
    return identify(call)


def identify(call: Invocation) -> Awaitable[None] | None:
    """Refuse anonymous principals, floods, and withdrawn credentials, whichever tool is called.

    Raises ``Unauthenticated``, ``TooManyRefusals``, and the errors of ``Credential.check``.
    """
    context = call.context
    runtime = context.runtime
    if runtime.refusals.is_busy and (remaining := runtime.refusals.seconds_left(context.principal)) is not None:
        message = f"Rate limit exceeded: too many calls were refused; try again in {duration_text(remaining)}."
        raise TooManyRefusals(message, retry_after=remaining)
    if runtime.governance.require_auth and context.principal.kind == "anonymous":
        call.deny(ANONYMOUS)
        raise Unauthenticated("Unauthenticated: only known principals may call tools here.")
    credential = call.options.credential
    return None if credential is None or credential.admits_all else credential.check()


def permission(installed: InstalledTool) -> Step:
    """Refuse a call of a tool that is not in play for this principal, here and now."""
    name = installed.name

    def step(call: Invocation) -> None:
        snapshot = call.context.snapshot
        if name not in snapshot.tools:
            verdict = snapshot.verdicts[name]
            call.deny(verdict.detail or verdict.reason, verdict.policies)
            raise PermissionDenied(f"Permission denied: {verdict.reason}")

    return step


Resolve = Callable[[SessionContext], CompiledTool]
"""Resolves the tool of a call in a session context."""


def unknown_tool(name: str) -> CompiledTool:
    """Return a compiled tool for an unknown name: calls of it fail with 404, and are recorded."""
    return CompiledTool(name, None, None, None, False, {"identify": (authenticate, _raise_not_found)})


def ambiguous_tool(compiled: CompiledTool) -> CompiledTool:
    """Return a compiled tool that refuses a tool object installed under several names (spec 1, C15)."""
    return refusing_tool(
        compiled,
        InvalidArguments(
            f"the tool {compiled.name!r} is installed under several names here, so the tool object is ambiguous",
            hint="call it by one of its names: await session.try_message(session.message(name, arguments))",
        ),
    )


def refusing_tool(compiled: CompiledTool, error: CapsetError) -> CompiledTool:
    """Return a compiled tool that refuses every call with ``error``, for a message that is wrong as a whole.

    The phases ``identify`` and ``authorize`` still come first, so that the refusal reveals nothing about a tool to
    callers that may not use it.
    """

    def refuse(call: Invocation) -> None:
        raise error

    phases = {phase: compiled.phases.get(phase, ()) for phase in ACCESS_PHASES}
    return replace(compiled, phases={**phases, "arguments": (refuse,)})


def _raise_not_found(call: Invocation) -> None:
    name, tools = call.compiled.name, call.context.snapshot.tools
    if name in tools:
        raise NotFound(f"the given tool {name!r} is not the tool of that name in this agent")
    for choice in call.context.snapshot.composition.capability_uses:
        for preset, part in choice.capability.presets.items():
            if preset not in choice.presets and name in [choice.names.get(tool.name) for tool in part.part.tools]:
                raise NotFound(
                    f"the tool {name!r} belongs to the preset {preset!r} of {choice.capability.name!r}, "
                    "which is off here",
                    hint=f"use {choice.capability.name}.with_presets({preset}=True)",
                )
    types = [installed.tool.type for installed in tools.values() if installed.tool.contract]
    names = [installed.qualified_name for installed in tools.values()] if "." in name else tools
    raise NotFound(unknown("tool", name, [*names, *types]))
