"""Validation of a submitted configuration by its text alone (spec 5, P12).

No code is imported, no path is followed, and nothing about this machine is revealed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, Literal

from capset.kernel.registry import Registry
from capset.wire.allowances import allowance_shape
from capset.wire.operations import ActionCheck, ConfigCheckShape, ProblemShape
from capset_connect.config_file.configuration import Action, Configuration, InvalidConfiguration, Problem
from capset_connect.config_file.handlers import Unloaded
from capset_connect.config_file.reader import parsed
from capset_connect.pins import capability_with

Format = Literal["yaml", "json", "toml"]
_NAME: Final = "configuration"


def check_text(text: str, format: Format, registry: Registry) -> ConfigCheckShape:
    """Return all problems of a configuration, or what it would serve if there are none."""
    handlers = Unloaded()
    try:
        reading = parsed(Path(f"{_NAME}.{format}"), text, handlers)
        found = reading.read(registry, lambda _: capability_with)
    except InvalidConfiguration as error:
        return told_of_problems(error.problems)
    return told_of(found, unseen=handlers.taken, unfollowed=reading.unfollowed())


def told_of_problems(problems: Iterable[Problem]) -> ConfigCheckShape:
    """Return the check result of a configuration that cannot be used."""
    return ConfigCheckShape(valid=False, problems=[_problem(one) for one in problems], warnings=[])


def told_of(
    found: Configuration, *, unseen: Collection[str] = (), unfollowed: Iterable[Problem] = ()
) -> ConfigCheckShape:
    """Return the check result of a valid configuration.

    ``unseen`` are the handlers that were not loaded, ``unfollowed`` the warnings of other paths.
    """
    warnings = [_problem(one) for one in (*found.warnings, *unfollowed)]
    warnings += [_unseen(one) for one in found.actions.values() if one.source in unseen]
    return ConfigCheckShape(
        valid=True,
        problems=[],
        warnings=warnings,
        agent=found.agent.name,
        capabilities=[one.name for one in found.capabilities],
        actions=[_action(one) for one in found.actions.values()],
        allowance=allowance_shape(found.governance.allowance and found.governance.allowance.plain()),
    )


def _unseen(one: Action) -> ProblemShape:
    told = f"the handler {one.source} is not loaded here: what it does, and whether it is there, was not checked"
    return ProblemShape(line=one.line, path="handler", action=one.tool.name, message=told)


def _action(one: Action) -> ActionCheck:
    tool = one.tool
    return ActionCheck(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        effect=tool.effect,
        permissions=sorted(tool.permissions),
        limits=[str(limit) for limit in tool.limits],
        approval="dynamic" if callable(tool.approval) else tool.approval,
        source=one.source,
        line=one.line,
    )


def _problem(one: Problem) -> ProblemShape:
    return ProblemShape(line=one.line, path=one.path, action=one.action, message=one.message)
