"""Reads a configuration file completely, or reports all of its problems (spec 4, G28)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os.path import realpath
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from capset.composition.compose import compose
from capset.definitions.agents import Agent
from capset.definitions.capabilities import AnyCapability
from capset.definitions.governance.channels import NotificationChannel
from capset.definitions.governance.policies import Policy, policy
from capset.definitions.governance.settings import Governance, Roles
from capset.definitions.names import AGENT
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError, DefinitionError
from capset.fingerprint.checkpoints import CheckpointKey
from capset.kernel.governance.checkpoints import Checkpoints
from capset.kernel.registry import Registry
from capset.schemas.validation_errors import UNKNOWN_FIELD
from capset.wire.agents import AgentDefinitionShape, SubAgentEntry
from capset_connect.agents.definitions import agent_of_definition, as_agent_tool, context_of
from capset_connect.agents.entries import capability_ids, refer, well_formed_entries
from capset_connect.config_file.actions import Borrowed, build_action
from capset_connect.config_file.configuration import Action, Configuration, InvalidConfiguration, Problem, warnings_of
from capset_connect.config_file.governance import governance_setting
from capset_connect.config_file.handlers import Handlers, Unloaded
from capset_connect.config_file.installed_tools import actions_capability, borrowed_tools, with_tools
from capset_connect.config_file.partial_validation import (
    actions_in,
    channels_in,
    check_shape,
    governance_in,
    other_members,
)
from capset_connect.config_file.shapes import (
    BUILT_IN,
    SERVER_MEMBERS,
    AuditShape,
    ConfigurationShape,
    GovernanceShape,
)
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

    ``registry`` has the capabilities and agents that the file may use. ``upstream`` creates the capabilities of MCP
    servers and APIs; without it, a file that declares any is refused. Raises ``InvalidConfiguration`` with all
    problems and their lines, and ``DefinitionError`` if the file cannot be read.
    """
    return _reading(path, ()).read(registry, upstream)


def _reading(path: Path, outer: tuple[Path, ...]) -> Reading:
    """Return a reading of a file. ``outer`` are the files that use it, the outermost first."""
    try:
        real_path = Path(realpath(path))  # unlike resolve(), it accepts a loop of symlinks
    except ValueError:  # a NUL, a lone surrogate
        raise DefinitionError(f"{str(path)!r:.200} is not a valid file path") from None
    if real_path in outer:
        raise DefinitionError(f"{path}: an agent cannot be its own tool, directly or through other agents")
    text = read_text(path, "a configuration file")
    return parsed(path, text, Handlers(path.parent), outer=(*outer, real_path))


def parsed(path: Path, text: str, handlers: Handlers | Unloaded, *, outer: tuple[Path, ...] = ()) -> Reading:
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
        raise InvalidConfiguration(path, [Problem(1, "", "expected a mapping, such as one with a name")])
    return Reading(path, text, cast("dict[str, Any]", data), lines, handlers, outer)


class Reading:
    """One reading of a file. With ``Unloaded`` handlers, only its text is used.

    ``outer`` ends with the real path of the file, after those of the files whose agents use its agent.
    """

    def __init__(
        self,
        path: Path,
        text: str,
        data: Mapping[str, Any],
        lines: Lines,
        handlers: Handlers | Unloaded,
        outer: tuple[Path, ...],
    ) -> None:
        self._path = path
        self._text = text
        self._data = data
        self._lines = lines
        self._handlers = handlers
        self._outer = outer
        self._problems: list[Problem] = []
        self._places: dict[str, Callable[[str], str]] = {}
        self._inner_readings: list[Reading] = []
        self._inner: list[Configuration] = []
        self._unread: list[Problem] = []
        """Warnings of files that were not read, because handlers are ``Unloaded``."""
        self._unused_names: list[Problem] = []
        """Warnings of new names for tools that their server does not offer, or that are not approved."""

    def read(
        self, registry: Registry, upstream: Upstream | None = None, outer: Governance | None = None
    ) -> Configuration:
        """Return the configuration. Raises ``InvalidConfiguration`` with up to ``MAX_PROBLEMS`` problems.

        ``outer`` is the governance of the file that uses this one.
        """
        try:
            return self._read(registry, upstream, outer)
        except BaseException:
            self.forget()
            raise

    def forget(self) -> None:
        """Remove the loaded modules of this file and of its sub-agents' files."""
        self._handlers.forget()
        for reading in self._inner_readings:
            reading.forget()

    def unfollowed(self) -> list[Problem]:
        """Return a warning for each path of a valid file that was not checked because its handlers are ``Unloaded``."""
        if not isinstance(self._handlers, Unloaded):
            return []
        members = other_members(self._data)
        settings = {"workspace": members.workspace, "audit.key": members.audit}
        warnings = [
            Problem(self._lines.of(path), path, message)
            for path, message in _UNFOLLOWED.items()
            if settings[path] is not None
        ]
        return [*warnings, *self._unread]

    def _read(self, registry: Registry, upstream: Upstream | None, outer: Governance | None) -> Configuration:
        for field in check_shape(self._data):
            meant = f" (did you mean {field.did_you_mean!r}?)" if field.did_you_mean else ""
            message = _OF_MODELS.sub("", field.expected.replace(UNKNOWN_FIELD, "there is no such field"))
            self._report(field.path, f"{message}{meant}", self._name_at(field.path))
        if len(self._outer) > 1:
            self._refuse_server_members()
        members = other_members(self._data)
        actions, borrowed = self._actions(registry)
        governance = self._governance(governance_in(self._data), members)
        sources = self._sources(members)
        upstream_capabilities = self._capabilities_of_sources(sources, upstream)
        extended = self._try("", lambda: registry.extended(upstream_capabilities)) or registry
        refs = self._capabilities(members, borrowed, extended, upstream_capabilities)
        channels = self._channels()
        workspace = self._workspace(members.workspace)
        checkpoints = None if members.audit is None else self._checkpoints(members.audit)
        borrowed_names = {borrowed_tool.tool.name for borrowed_tool in borrowed}
        own_tools = [action.tool for name, action in actions.items() if name not in borrowed_names]
        effective_governance = outer or governance
        sub_agents = self._sub_agents(
            members, extended, lambda reading: reading.read(registry, upstream, effective_governance)
        )
        policies = self._policies(members)
        agent = None
        if not self._problems:
            agent = self._try("", lambda: self._agent(members, [*own_tools, *sub_agents], refs, policies))
        capability = self._try("actions", lambda: actions_capability(self._path, own_tools, refs, borrowed, policies))
        if self._problems or governance is None or agent is None:
            raise InvalidConfiguration(self._path, self._problems)
        digest = hashlib.sha256(self._text.encode()).hexdigest()
        warnings = [
            Problem(self._lines.of(place), place, warning, action)
            for action, member, warning in warnings_of(actions.values(), outer or governance)
            if action or outer is None
            for place in [self._places[action](member) if action else f"governance.{member}"]
        ]
        warnings += [
            Problem(self._lines.of("agents"), "agents", f"{inner.path.name}: {warning}")
            for inner in self._inner
            for warning in inner.warnings
        ]
        inner_capabilities = (capability for inner in self._inner for capability in inner.source_capabilities)
        source_capabilities = {part.name: part for part in (*inner_capabilities, *upstream_capabilities)}
        own_members = self._data.keys() - AgentDefinitionShape.model_fields - {"$schema"}
        return Configuration(
            path=self._path,
            agent=agent,
            actions=MappingProxyType(actions),
            capabilities=refs,
            governance=governance,
            workspace=workspace,
            checkpoints=checkpoints,
            warnings=(*warnings, *self._unused_names),
            digest=digest,
            sources=tuple(self._all_sources(sources).values()),
            own_sources=tuple(sources.values()),
            source_capabilities=tuple(source_capabilities.values()),
            inner=tuple(self._inner),
            channels=channels,
            shared=(*upstream_capabilities, *([] if capability is None else [capability])),
            files=self._files(digest),
            is_needed=bool(own_members) or agent.model is not None or any(inner.is_needed for inner in self._inner),
        )

    def _files(self, digest: str) -> Mapping[Path, str]:
        own_files = {self._path.parent / place: sha for place, sha in self._handlers.files.items()}
        inner_files = {file: sha for inner in self._inner for file, sha in inner.files.items()}
        return MappingProxyType({self._path: digest} | own_files | inner_files)

    def _refuse_server_members(self) -> None:
        for name in SERVER_MEMBERS:
            if name in self._data:
                self._report(
                    name, f"applies to a whole server: write it in {self._outer[0].name}, which uses this file"
                )

    def _actions(self, registry: Registry) -> tuple[dict[str, Action], list[Borrowed]]:
        actions: dict[str, Action] = {}
        borrowed: list[Borrowed] = []
        first: dict[str, int] = {}
        for part, action in actions_in(self._data):
            name, line = part.shape.name, self._lines.of(part.path)

            def report(
                member: str,
                message: str,
                name: str = name,
                place: Callable[[str], str] = part.place,
                path: str = part.path,
            ) -> None:
                self._report(place(member) if member else path, message, name)

            is_new = name not in first
            if not is_new:
                report("name", f"another action on line {first[name]} has this name")
            first.setdefault(name, line)
            self._places.setdefault(name, part.place)
            built = build_action(action, self._handlers, registry, report)
            if not is_new:
                continue
            if isinstance(built, Borrowed):
                borrowed.append(built)
            tool = built.tool if isinstance(built, Borrowed) else built
            if tool is not None:
                shape = part.shape
                source = shape.handler or shape.tool or BUILT_IN[name.replace("_", "-")]
                actions[name] = Action(tool, source, line)
        return actions, borrowed

    def _governance(self, shape: GovernanceShape | None, members: ConfigurationShape) -> Governance | None:
        values: dict[str, Any] = {}
        for name in GovernanceShape.model_fields if shape is not None else ():
            value = getattr(shape, name)
            # For refusals, null means no limit; for all other members, it means unset.
            if value is None and not (name == "refusals" and shape is not None and name in shape.model_fields_set):
                continue
            self._try(
                f"governance.{name}",
                lambda name=name, value=value: values.update({name: governance_setting(name, value)}),
            )
        roles = self._try("roles", lambda: Roles(members.roles))
        return self._try("governance", lambda: Governance(**values, roles=roles))

    def _capabilities(
        self,
        members: ConfigurationShape,
        borrowed: list[Borrowed],
        registry: Registry,
        upstream_capabilities: list[AnyCapability],
    ) -> tuple[AnyRef, ...]:
        """Return the references of the agent: those listed, those whose tools actions use, and the file's sources.

        An agent has all sources of the file if no ``capabilities`` in the file name one.
        """
        entries = well_formed_entries(self._data)
        positions = list(entries)
        referred = refer(entries.values(), registry)
        for mismatch in (replace(misfit, position=positions[misfit.position]) for misfit in referred.misfits):
            meant = f" (did you mean {mismatch.did_you_mean!r}?)" if mismatch.did_you_mean else ""
            path, message = mismatch.field.path, f"{mismatch.expected}{meant}"
            source = next((capability for capability in upstream_capabilities if capability.name == mismatch.id), None)
            if source is None or not mismatch.place.startswith("rename."):
                self._report(path, message)
            elif source.every_tool:  # without any, none is approved yet, or approvals are not read here
                self._unused_names.append(Problem(self._lines.of(path), path, f"no approved tool: {message}"))
        refs = {reference.name: reference for reference in referred.refs}
        for borrowed_tool in borrowed:
            refs.setdefault(borrowed_tool.capability.name, borrowed_tool.capability.ref)
        for name, ref in refs.items():
            if tools := borrowed_tools(ref.base, borrowed):
                restricted = self._try("actions", lambda ref=ref, tools=tools: with_tools(ref, tools))
                refs[name] = restricted or ref
        if not {capability.name for capability in upstream_capabilities} & set(capability_ids(members)):
            refs |= {capability.name: capability.ref for capability in upstream_capabilities}
        return tuple(refs.values())

    def _sources(self, members: ConfigurationShape) -> dict[str, Source]:
        """Return the valid MCP servers and APIs of the file by their paths."""
        sources = {place: self._try(place, make) for place, make in declarations(members, self._path.parent)}
        return {place: source for place, source in sources.items() if source is not None}

    def _all_sources(self, sources: Mapping[str, Source]) -> dict[str, Source]:
        """Return the sources of the file and of the files of sub-agents, by the names of their capabilities."""
        all_sources: dict[str, Source] = {}
        for source in (*sources.values(), *(source for inner in self._inner for source in inner.sources)):
            if all_sources.setdefault(source.capability, source) != source:
                message = f"two of its agents declare {source.label} differently"
                raise InvalidConfiguration(self._path, [Problem(self._lines.of("agents"), "agents", message)])
        return all_sources

    def _channels(self) -> tuple[NotificationChannel, ...]:
        channels = [
            self._try(f"notifications.{name}", lambda name=name, shape=shape: channel_of(name, shape))
            for name, shape in channels_in(self._data)
        ]
        return tuple(channel for channel in channels if channel is not None)

    def _capabilities_of_sources(self, sources: Mapping[str, Source], upstream: Upstream | None) -> list[AnyCapability]:
        if upstream is None:
            for place in sources:
                self._report(place, "its tools come from pins in a store, but no store was given")
            return []
        if not sources:
            return []
        make = self._try(next(iter(sources)), lambda: upstream([*sources.values()]))
        if make is None:
            return []
        capabilities = [self._try(place, partial(make, source)) for place, source in sources.items()]
        return [capability for capability in capabilities if capability is not None]

    def _sub_agents(
        self, members: ConfigurationShape, registry: Registry, read: Callable[[Reading], Configuration]
    ) -> list[AnyTool]:
        """Return the sub-agents as tools. ``registry`` includes the file's own MCP servers and APIs."""

        def find_agent(name: str) -> Agent:
            is_file = name not in registry.agents and bool(Path(name).suffix)
            return self._agent_in_file(name, read) if is_file else registry.get_agent(name)

        tools: list[AnyTool] = []
        for position, named in enumerate(members.agents):
            place = f"agents.{position}"
            entry = SubAgentEntry(agent=named) if isinstance(named, str) else named
            if (agent := self._sub_agent(place, entry.agent, registry, find_agent)) is not None:
                tool = self._try(place, lambda agent=agent, entry=entry: as_agent_tool(agent, entry))
                tools += [] if tool is None else [tool]
        return tools

    def _sub_agent(
        self, place: str, named: str | AgentDefinitionShape, registry: Registry, find_agent: Callable[[str], Agent]
    ) -> Agent | None:
        """Return a sub-agent, or report all of its problems and return ``None``."""
        try:
            if isinstance(named, str):
                return find_agent(named)
            return agent_of_definition(named, registry, str(self._path), find_agent)
        except InvalidConfiguration as error:
            for problem in error.problems:
                self._report(place, f"{error.file.name}: {problem}")
        except CapsetError as error:
            self._report(place, error.message)
        return None

    def _agent_in_file(self, name: str, read: Callable[[Reading], Configuration]) -> Agent:
        """Return the agent in another file; if files are not read here, one that stands for it."""
        if isinstance(self._handlers, Unloaded):
            message = f"files are not read here: the agent in {name!r:.80} was not checked"
            self._unread.append(Problem(self._lines.of("agents"), "agents", message))
            return Agent(f"unread-{len(self._unread)}", description="not known here")
        reading = _reading(self._path.parent / name, self._outer)
        inner = read(reading)
        self._inner_readings.append(reading)
        self._inner.append(inner)
        return inner.agent

    def _policies(self, members: ConfigurationShape) -> list[Policy]:
        policies: dict[str, Policy] = {}
        for position, reference in enumerate(members.policies):
            place = f"policies.{position}"
            loaded = self._try(place, lambda reference=reference: self._policy(reference))
            if loaded is not None and loaded.id in policies:
                self._report(place, f"another policy of this list has the id {loaded.id!r}")
            elif loaded is not None:
                policies[loaded.id] = loaded
        return [*policies.values()]

    def _policy(self, reference: str) -> Policy | None:
        """Return a policy, or ``None`` if handlers are not loaded here."""
        value = self._handlers.resolve(reference).value
        if isinstance(self._handlers, Unloaded):
            message = f"the policy {reference} is not loaded here: neither its existence nor its code was checked"
            self._unread.append(Problem(self._lines.of("policies"), "policies", message))
            return None
        return value if isinstance(value, Policy) else policy(value)

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

    def _agent(
        self, members: ConfigurationShape, tools: list[AnyTool], refs: tuple[AnyRef, ...], policies: list[Policy]
    ) -> Agent:
        stem = _UNNAMED.sub("-", self._path.stem).lstrip(" _.-")[:100]
        context, wrong = context_of(members.static_context)
        if wrong:
            raise DefinitionError("; ".join(map(str, wrong)))
        agent = Agent(
            members.name or (stem if AGENT.fullmatch(stem) else "configuration"),
            description=members.description,
            system_prompt=members.system_prompt,
            instructions=members.instructions,
            model=members.model,
            uses=refs,
            tools=tools,
            policies=policies,
            static_context=context,
            allowance=members.allowance and members.allowance.allowance(),
        )
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
            if isinstance(node, dict) and name is None and part.isdigit() and path.startswith("actions."):
                name = cast("dict[str, Any]", node).get("name")
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
