"""Validation of a submitted configuration from its text alone (spec 5, P12).

It imports no code, follows no path, and reveals nothing about this machine.
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
from capset_connect.pins.tool_pins import capability_with

Format = Literal["yaml", "json", "toml"]
_NAME: Final = "configuration"


def check_text(text: str, format: Format, registry: Registry) -> ConfigCheckShape:
    """Return all problems of a configuration, or a summary of what it would serve."""
    handlers = Unloaded()
    try:
        reading = parsed(Path(f"{_NAME}.{format}"), text, handlers)
        configuration = reading.read(registry, lambda _: capability_with)
    except InvalidConfiguration as error:
        return told_of_problems(error.problems)
    return told_of(configuration, unseen=handlers.taken, unfollowed=reading.unfollowed())


def told_of_problems(problems: Iterable[Problem]) -> ConfigCheckShape:
    """Return the check result of an invalid configuration."""
    return ConfigCheckShape(valid=False, problems=[_problem(problem) for problem in problems], warnings=[])


def told_of(
    configuration: Configuration, *, unseen: Collection[str] = (), unfollowed: Iterable[Problem] = ()
) -> ConfigCheckShape:
    """Return the check result of a valid configuration.

    ``unseen`` are the handlers that were not loaded; ``unfollowed`` are warnings about other unchecked paths.
    """
    warnings = [_problem(problem) for problem in (*configuration.warnings, *unfollowed)]
    warnings += [_unseen(action) for action in configuration.actions.values() if action.source in unseen]
    return ConfigCheckShape(
        valid=True,
        problems=[],
        warnings=warnings,
        agent=configuration.agent.name,
        capabilities=[capability.name for capability in configuration.capabilities],
        actions=[_action(action) for action in configuration.actions.values()],
        allowance=allowance_shape(configuration.governance.allowance and configuration.governance.allowance.plain()),
    )


def _unseen(action: Action) -> ProblemShape:
    message = f"the handler {action.source} is not loaded here: neither its existence nor its code was checked"
    return ProblemShape(line=action.line, path="handler", action=action.tool.name, message=message)


def _action(action: Action) -> ActionCheck:
    tool = action.tool
    return ActionCheck(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        effect=tool.effect,
        permissions=sorted(tool.permissions),
        limits=[str(limit) for limit in tool.limits],
        approval="dynamic" if callable(tool.approval) else tool.approval,
        source=action.source,
        line=action.line,
    )


def _problem(problem: Problem) -> ProblemShape:
    return ProblemShape(line=problem.line, path=problem.path, action=problem.action, message=problem.message)
