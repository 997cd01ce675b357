"""Actions by their ids: register, get, list, execute (spec 4, G4, G6). Convenience over a session's interface."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakValueDictionary

from capset.composition.compose import compose
from capset.definitions.agents import Agent
from capset.definitions.names import listed
from capset.definitions.principals import Principal
from capset.definitions.tools.definition import AnyTool, Tool
from capset.errors import CapsetError, DefinitionError, ToolNameConflict
from capset.kernel.call.invocation import MISSING
from capset.kernel.call.pipeline import execute
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.stores.base import SessionRow

KEPT: Final = 1_000
"""Maximum number of cached sessions, one per principal; the least recently used go first."""


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """The acting user, and the host's own values for this environment."""

    user: Principal
    env: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The outcome of an action whose handler was reached: ``data``, plain JSON data, if ``success``, else ``error``.

    ``error`` is the verbatim text of a ``ToolError``, or a sanitised text for any other exception; ``failure`` has its
    code and status. ``record`` is the id of the call's record.
    """

    success: bool
    data: Any = None
    error: str | None = None
    failure: CapsetError | None = None
    record: str | None = None


@dataclass(frozen=True, slots=True)
class _Registered:
    """A principal's session, and the environment it was opened with."""

    row: SessionRow
    session: Session
    env: Mapping[str, Any]


class _Version:
    """One immutable version of the registry, and the sessions that were opened with it."""

    def __init__(self, name: str, tools: Mapping[str, AnyTool]) -> None:
        self.tools = MappingProxyType(dict(tools))
        self.kept: OrderedDict[Principal, _Registered] = OrderedDict()
        self.locks: WeakValueDictionary[Principal, asyncio.Lock] = WeakValueDictionary()
        self._name = name
        self._agent: Agent | None = None

    @property
    def agent(self) -> Agent:
        """The agent of these tools, created on first use: registering many tools one by one stays cheap."""
        if self._agent is None:
            self._agent = Agent(self._name, tools=self.tools.values())
        return self._agent


def _related(agent: str, new: Sequence[AnyTool], registered: Mapping[str, AnyTool]) -> list[AnyTool]:
    """Return new tools with all those of the known ones that could be in conflict with them.

    To compose these is to compose all, and stays cheap where many tools are registered one by one.
    """
    added, policies = set(new), {gate.id: gate for tool in new for gate in tool.policies}
    routes = {name for tool in new if tool.contract for name in (tool.type, tool.type.removeprefix(f"{agent}."))}
    return [
        tool
        for tool in registered.values()
        if tool in added
        or tool.block is not None
        or tool.contract is not None
        or tool.name in routes
        or any(policies.get(gate.id, gate) is not gate for gate in tool.policies)
    ]


class ActionRegistry:
    """Tools by id over one kernel: ``registry.register(tool)``, ``await registry.execute(id, params, context)``.

    Each change makes a new version; running executions continue with the version they started with. A principal has one
    session per version, so that files and state persist between executions.
    """

    def __init__(self, kernel: Kernel, tools: Iterable[AnyTool] = (), *, name: str = "actions") -> None:
        """``name`` is the name of the agent in its records. Raises as ``register`` does."""
        self._kernel = kernel
        self._name = name
        self._version = _Version(name, {})
        self.register(*listed("an action registry's tools", tools))

    def register(self, *tools: AnyTool, replace: bool = False) -> None:
        """Register tools, all or none, by swapping in a new mapping; if one is refused, the old one stays in use.

        Their schemas were checked when the tools were created. Raises ``DefinitionError`` for an object that is not a
        tool, ``ToolNameConflict`` if another tool has the name, unless ``replace`` is true, and as ``compose`` does for
        a tool that cannot be in one agent with the others, such as one with another policy of the same id.
        """
        registered = dict(self._version.tools)
        for tool in tools:
            if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
                raise DefinitionError(
                    f"an action is a Tool; got {tool!r:.80}",
                    hint="put @tool on the function, or make one of JSON Schema by schema_tool(…)",
                )
            existing = registered.get(tool.name)
            if existing is not None and existing is not tool and not replace:
                raise ToolNameConflict(
                    f"there is another action {tool.name!r} already", hint="register(…, replace=True) takes its place"
                )
            registered[tool.name] = tool
        if tools:
            compose(Agent(self._name, tools=_related(self._name, tools, registered)))
            self._version = _Version(self._name, registered)

    def get(self, id: str) -> AnyTool | None:
        """Return an action by its id, or ``None``."""
        return self._version.tools.get(id)

    def list(self, permissions: Iterable[str] | None = None) -> list[AnyTool]:
        """Return the actions that need any of these permissions, by id; all for ``None``, none for an empty iterable.

        It is a filter, not authorisation: an unlisted action is not forbidden, and a listed one not allowed.
        """
        tools = [tool for _, tool in sorted(self._version.tools.items())]
        if permissions is None:
            return tools
        granted = frozenset(permissions)
        return [tool for tool in tools if tool.permissions & granted]

    async def execute(self, id: str, params: Mapping[str, Any], context: ExecutionContext) -> ActionResult:
        """Execute an action, governed and on record; ``params`` are of the tool's own types.

        Raises the refusal of an action whose handler was not reached: ``NotFound``, ``PermissionDenied``,
        ``InvalidArguments``, ``LimitExceeded``, ``StoreError``, …. Every outcome of the handler is returned as a
        result.
        """
        if not isinstance(context, ExecutionContext):  # pyright: ignore[reportUnnecessaryIsInstance]  # as above
            raise DefinitionError(f"context is an ExecutionContext(user=Principal(…)); got {context!r:.80}")
        session = await self._session(self._version, context)
        call = session.ask(session.message(id, params))
        await execute(call)
        if call.error is None:
            return ActionResult(True, None if call.value is MISSING else call.data, record=call.id)
        if call.decided.kind != "allow":  # set only once every stage before the handler has passed
            raise call.error
        return ActionResult(False, error=call.error.message, failure=call.error, record=call.id)

    async def _session(self, version: _Version, context: ExecutionContext) -> Session:
        user, env = context.user, context.env
        cached = version.kept.get(user)
        if cached is None or cached.env != env:
            async with version.locks.setdefault(user, asyncio.Lock()):
                cached = version.kept.get(user)
                if cached is None or cached.env != env:
                    cached = await self._opened(version.agent, context, cached)
                    version.kept[user] = cached
        version.kept.move_to_end(user)
        if len(version.kept) > KEPT:
            version.kept.popitem(last=False)
        return cached.session

    async def _opened(self, agent: Agent, context: ExecutionContext, existing: _Registered | None) -> _Registered:
        """Return a session of the existing row, or of a new one; a different environment gets a new snapshot."""
        user, env = context.user, dict(context.env)
        row = self._kernel.new_session(agent, user) if existing is None else existing.row
        session = await self._kernel.enter(row, agent, principal=user, env=env)
        if existing is None:
            await self._kernel.store.sessions.create(row)
        return _Registered(row, session, env)
