"""Reads a configuration file completely, or reports all of its problems (spec 4, G28)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from capset.composition.compose import compose
from capset.definitions.agents import Agent
from capset.definitions.capabilities import narrow_capability
from capset.definitions.governance.approvers import ApproverRule
from capset.definitions.governance.channels import NotificationChannel
from capset.definitions.governance.limits import limit_of
from capset.definitions.governance.settings import Governance, Roles
from capset.definitions.names import AGENT
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError, DefinitionError
from capset.fingerprint.checkpoints import CheckpointKey
from capset.kernel.governance.checkpoints import Checkpoints
from capset.kernel.governance.redaction import redactor_of
from capset.kernel.registry import Registry
from capset.schemas.validation_errors import UNKNOWN_FIELD
from capset.wire.agents import CapabilityEntry
from capset.wire.allowances import AllowanceShape
from capset_connect.agent_files.entries import refer
from capset_connect.config_file.actions import Borrowed, build_action
from capset_connect.config_file.configuration import Action, Configuration, InvalidConfiguration, Problem, warnings_of
from capset_connect.config_file.handlers import Handlers, Unloaded
from capset_connect.config_file.partial_validation import actions_in, channels_in, check_shape, governance_in, whole_in
from capset_connect.config_file.shapes import BUILT_IN, ApproverRuleShape, AuditShape, ConfigurationShape
from capset_connect.config_file.source_positions import Lines, check_members, lines_of
from capset_connect.notifications.declarations import channel_of
from capset_connect.plain_files import Unparsable, parse, read_text
from capset_connect.sources import Source, Upstream, declarations

T = TypeVar("T")
MAX_PROBLEMS: Final = 100
"""Maximum number of problems that are reported. Reading stops there."""
_OF_MODELS: Final = re.compile(r" or instance of \w+")
"""The part of pydantic's messages about objects that names internal classes."""
_UNFOLLOWED: Final = {
    "workspace": "paths are not followed here: it was not checked whether the folder exists",
    "audit.key": "files are not read here: it was not checked whether the file exists and contains a key",
}
_UNNAMED: Final = re.compile(r"[^A-Za-z0-9 _.-]+")


def read_configuration(path: Path, registry: Registry, *, upstream: Upstream | None = None) -> Configuration:
    """Return the configuration in a file. Its handlers are loaded each time.

    ``registry`` has the capabilities whose tools the file may use. ``upstream`` creates the capabilities of MCP servers
    and APIs; without it, a file that declares any is refused. Raises ``InvalidConfiguration`` with all problems and
    their lines, and ``DefinitionError`` if the file cannot be read.
    """
    return parsed(path, read_text(path, "a configuration file"), Handlers(path.parent)).read(registry, upstream)


def parsed(path: Path, text: str, handlers: Handlers | Unloaded) -> Reading:
    """Parse the text of a file into a ``Reading``. Raises ``InvalidConfiguration`` if it is not a mapping."""
    try:
        lines = lines_of(path.suffix.lower(), text)
        data = parse(path, text)
        check_members(data)
    except Unparsable as error:
        raise InvalidConfiguration(path, [Problem(error.line, "", error.told)]) from None
    except DefinitionError as error:
        raise InvalidConfiguration(path, [Problem(None, "", error.message)]) from None
    if not isinstance(data, dict):
        raise InvalidConfiguration(path, [Problem(1, "", "expected a mapping, such as one with actions")])
    return Reading(path, text, cast("dict[str, Any]", data), lines, handlers)


class Reading:
    """One reading of a file. With ``Unloaded`` handlers, only its text is used."""

    def __init__(
        self, path: Path, text: str, data: Mapping[str, Any], lines: Lines, handlers: Handlers | Unloaded
    ) -> None:
        self._path = path
        self._text = text
        self._data = data
        self._lines = lines
        self._handlers = handlers
        self._problems: list[Problem] = []
        self._places: dict[str, Callable[[str], str]] = {}
        self._governed: dict[str, str] = {}

    def read(self, registry: Registry, upstream: Upstream | None = None) -> Configuration:
        """Return the configuration. Raises ``InvalidConfiguration`` with up to ``MAX_PROBLEMS`` problems."""
        try:
            return self._read(registry, upstream)
        except BaseException:
            self._handlers.forget()
            raise

    def unfollowed(self) -> list[Problem]:
        """Return a warning for each path of a valid file that was not checked because its handlers are ``Unloaded``."""
        rest = whole_in(self._data)
        settings = {"workspace": rest.workspace, "audit.key": rest.audit}
        return [
            Problem(self._lines.of(path), path, message)
            for path, message in _UNFOLLOWED.items()
            if settings[path] is not None and isinstance(self._handlers, Unloaded)
        ]

    def _read(self, registry: Registry, upstream: Upstream | None) -> Configuration:
        for field in check_shape(self._data):
            meant = f" (did you mean {field.did_you_mean!r}?)" if field.did_you_mean else ""
            message = _OF_MODELS.sub("", field.expected.replace(UNKNOWN_FIELD, "there is no such field"))
            self._report(field.path, f"{message}{meant}", self._name_at(field.path))
        rest = whole_in(self._data)
        actions, borrowed = self._actions(registry)
        governance = self._governance(rest)
        refs = self._capabilities(rest, borrowed, registry)
        sources = self._sources(rest)
        channels = self._channels()
        refs = (*refs, *self._upstream(sources, upstream))
        workspace = self._workspace(rest.workspace)
        checkpoints = None if rest.audit is None else self._checkpoints(rest.audit)
        tools = [
            action.tool
            for name, action in actions.items()
            if name not in {borrowed_tool.tool.name for borrowed_tool in borrowed}
        ]
        agent = None if self._problems else self._try("", lambda: self._agent(rest.agent, tools, refs))
        if self._problems or governance is None or agent is None:
            raise InvalidConfiguration(self._path, self._problems)
        warnings = [
            Problem(self._lines.of(place), place, warning, action)
            for action, member, warning in warnings_of(actions.values(), governance)
            for place in [self._places[action](member) if action else self._governed.get(member, "governance")]
        ]
        digest = hashlib.sha256(self._text.encode()).hexdigest()
        return Configuration(
            self._path,
            agent,
            MappingProxyType(actions),
            refs,
            governance,
            workspace,
            checkpoints,
            tuple(warnings),
            digest,
            tuple(sources.values()),
            channels,
        )

    def _actions(self, registry: Registry) -> tuple[dict[str, Action], list[Borrowed]]:
        actions: dict[str, Action] = {}
        borrowed: list[Borrowed] = []
        first: dict[str, int] = {}
        for taken, action in actions_in(self._data):
            name, line = taken.shape.name, self._lines.of(taken.path)

            def report(
                member: str,
                message: str,
                name: str = name,
                place: Callable[[str], str] = taken.place,
                path: str = taken.path,
            ) -> None:
                self._report(place(member) if member else path, message, name)

            is_new = name not in first
            if not is_new:
                report("name", f"another action on line {first[name]} has this name")
            first.setdefault(name, line)
            self._places.setdefault(name, taken.place)
            built = build_action(action, self._handlers, registry, report)
            if not is_new:
                continue
            if isinstance(built, Borrowed):
                borrowed.append(built)
            tool = built.tool if isinstance(built, Borrowed) else built
            if tool is not None:
                shape = taken.shape
                source = shape.handler or shape.tool or BUILT_IN[name.replace("_", "-")]
                actions[name] = Action(tool, source, line)
        return actions, borrowed

    def _governance(self, rest: ConfigurationShape) -> Governance | None:
        values: dict[str, Any] = {}
        for taken in governance_in(self._data):
            for name in type(taken.shape).model_fields:
                value = getattr(taken.shape, name)
                # For refusals, null means no limit; for all other members, it means unset.
                if value is None and not (name == "refusals" and name in taken.shape.model_fields_set):
                    continue
                if name in values:
                    self._report(taken.place(name), f"already set by {self._governed[name]}: set it once")
                    continue
                self._governed[name] = taken.place(name)
                self._try(
                    taken.place(name), lambda name=name, value=value: values.update({name: _governing(name, value)})
                )
        roles = self._try("roles", lambda: Roles(rest.roles))
        return self._try("governance", lambda: Governance(**values, roles=roles))

    def _capabilities(
        self, rest: ConfigurationShape, borrowed: list[Borrowed], registry: Registry
    ) -> tuple[AnyRef, ...]:
        entries = [CapabilityEntry(id=name, config=config or None) for name, config in rest.capabilities.items()]
        referred = refer(entries, registry)
        for wrong in referred.misfits:
            name = entries[wrong.position].id
            place = wrong.place.removeprefix("config").removeprefix(".")
            meant = f" (did you mean {wrong.did_you_mean!r}?)" if wrong.did_you_mean else ""
            self._report(".".join(part for part in ("capabilities", name, place) if part), f"{wrong.expected}{meant}")
        refs = {reference.name: reference for reference in referred.refs}
        for borrowed_tool in borrowed:
            refs.setdefault(borrowed_tool.capability.name, borrowed_tool.capability.ref)
        for name, ref in refs.items():
            tools: dict[AnyTool, list[AnyTool]] = {}
            for borrowed_tool in borrowed:
                if borrowed_tool.capability is ref.base:
                    tools.setdefault(borrowed_tool.original, []).append(borrowed_tool.tool)
            if tools:
                restricted = self._try(f"capabilities.{name}", lambda ref=ref, tools=tools: _with_tools(ref, tools))
                refs[name] = restricted or ref
        return tuple(refs.values())

    def _sources(self, rest: ConfigurationShape) -> dict[str, Source]:
        """Return the valid MCP servers and APIs of the file by their paths."""
        sources = {place: self._try(place, make) for place, make in declarations(rest, self._path.parent)}
        return {place: source for place, source in sources.items() if source is not None}

    def _channels(self) -> tuple[NotificationChannel, ...]:
        channels = [
            self._try(f"notifications.{name}", lambda name=name, shape=shape: channel_of(name, shape))
            for name, shape in channels_in(self._data)
        ]
        return tuple(channel for channel in channels if channel is not None)

    def _upstream(self, sources: Mapping[str, Source], upstream: Upstream | None) -> Iterator[AnyRef]:
        if upstream is None:
            for place in sources:
                self._report(place, "its tools come from pins in a store, but no store was given")
        elif sources and (make := self._try(next(iter(sources)), lambda: upstream([*sources.values()]))) is not None:
            for place, source in sources.items():
                if (capability := self._try(place, lambda source=source: make(source))) is not None:
                    yield capability.ref

    def _workspace(self, path: str | None) -> Path | None:
        if path is None or isinstance(self._handlers, Unloaded):
            return None
        try:
            folder = (self._path.parent / path).resolve()
            is_folder = folder.is_dir()
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, circular symlinks
            folder, is_folder = None, False
        if not is_folder:
            self._report("workspace", f"there is no folder {path!r:.80}; create it, or name another one")
        return folder

    def _checkpoints(self, audit: AuditShape) -> Checkpoints | None:
        if isinstance(self._handlers, Unloaded):
            return self._try("audit", lambda: Checkpoints(CheckpointKey.generate(), every=audit.every, keep=audit.keep))
        try:
            key = CheckpointKey.read(self._path.parent / audit.key)
        except (OSError, ValueError):
            self._report(
                "audit.key", f"there is no file {audit.key!r:.80} to read; create it with capset audit keygen FILE"
            )
        except DefinitionError as error:
            self._report("audit.key", error.message + (f"; {error.hint}" if error.hint else ""))
        else:
            return self._try("audit", lambda: Checkpoints(key, every=audit.every, keep=audit.keep))
        return None

    def _agent(self, name: str | None, tools: list[AnyTool], refs: tuple[AnyRef, ...]) -> Agent:
        stem = _UNNAMED.sub("-", self._path.stem).lstrip(" _.-")[:100]
        agent = Agent(name or (stem if AGENT.fullmatch(stem) else "configuration"), tools=tools, uses=refs)
        compose(agent)  # detects duplicate tool names and missing configs
        return agent

    def _name_at(self, path: str) -> str | None:
        """Return the name of the action that contains a path. The name need not be valid."""
        node: Any = self._data
        name: Any = None
        for part in path.split("."):
            if isinstance(node, list):
                items = cast("list[Any]", node)
                node = items[int(part)] if part.isdigit() and int(part) < len(items) else None
            else:
                node = cast("dict[str, Any]", node).get(part) if isinstance(node, dict) else None
            if isinstance(node, dict) and name is None and part.isdigit():
                members = cast("dict[str, Any]", node)
                name = members.get("id", members.get("name"))
        return name[:100].encode(errors="replace").decode() if isinstance(name, str) else None

    def _try(self, path: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except InvalidConfiguration:
            raise
        except CapsetError as error:
            self._report(path, error.message + (f"; {error.hint}" if error.hint else ""))
            return None

    def _report(self, path: str, message: str, action: str | None = None) -> None:
        self._problems.append(Problem(self._lines.of(path), path, message, action))
        if len(self._problems) == MAX_PROBLEMS:
            more = Problem(None, "", f"only the first {MAX_PROBLEMS} problems are listed; the rest was not checked")
            raise InvalidConfiguration(self._path, [*self._problems, more])


def _governing(name: str, value: Any) -> Any:  # of the member's type
    """Convert and validate one member of the governance. Raises ``DefinitionError``."""
    converted: Any = value
    if isinstance(value, AllowanceShape):
        converted = value.allowance()
    elif name == "approvers":
        return [
            _rule(number, rule) for number, rule in enumerate(value, 1)
        ]  # validated further together with the other members
    elif name == "refusals" and value is not None:
        converted = limit_of(value)
    Governance(**{name: converted})
    if name == "redact":
        redactor_of(converted)
    return converted


def _rule(number: int, shape: ApproverRuleShape) -> ApproverRule:
    try:
        return shape.rule()
    except DefinitionError as error:
        raise DefinitionError(f"number {number}: {error.message}", hint=error.hint) from None


def _with_tools(ref: AnyRef, tools: Mapping[AnyTool, list[AnyTool]]) -> AnyRef:
    """Return a reference to a capability with only these tools. The presets that contain them are enabled."""
    presets = {
        name: True for name, preset in ref.base.presets.items() if any(tool in tools for tool in preset.part.tools)
    }
    return replace(ref.with_presets(**presets), base=narrow_capability(ref.base, tools))
