"""Actions by their ids: register, get, list, execute (spec 4, G4, G6). An adapter for hosts with such an API."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

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

MAX_SESSIONS: Final = 1_000
"""Maximum number of sessions in memory, one per principal; the least recently used go first."""


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


class ActionRegistry:
    """Tools by id over one kernel: ``registry.register(tool)``, ``await registry.execute(id, params, context)``.

    Each change makes a new agent; running executions continue with the one they started with. A principal has one
    session per agent, so that files and state persist between executions.
    """

    def __init__(self, kernel: Kernel, tools: Iterable[AnyTool] = (), *, name: str = "actions") -> None:
        """``name`` is the name of the agent in its records. Raises as ``register`` does."""
        self._kernel = kernel
        self._agent = Agent(name)
        self._tools: dict[str, AnyTool] = {}
        self._sessions: OrderedDict[Principal, tuple[SessionRow, Session, Mapping[str, Any]]] = OrderedDict()
        self._opening = asyncio.Lock()
        self.register(*listed("an action registry's tools", tools))

    def register(self, *tools: AnyTool, replace: bool = False) -> None:
        """Register tools, all or none: if one is refused, everything stays as it was.

        Raises ``DefinitionError`` for an object that is not a tool, ``ToolNameConflict`` if another tool has the name,
        unless ``replace`` is true, and as ``compose`` does for a tool that cannot be in one agent with the others.
        """
        registered = dict(self._tools)
        for tool in tools:
            if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
                raise DefinitionError(
                    f"an action is a Tool; got {tool!r:.80}",
                    hint="put @tool on the function, or make one of JSON Schema by schema_tool(…)",
                )
            if registered.get(tool.name, tool) is not tool and not replace:
                raise ToolNameConflict(
                    f"there is another action {tool.name!r} already", hint="register(…, replace=True) takes its place"
                )
            registered[tool.name] = tool
        agent = Agent(self._agent.name, tools=registered.values())
        compose(agent)
        self._agent, self._tools, self._sessions = agent, registered, OrderedDict()

    def get(self, id: str) -> AnyTool | None:
        """Return an action by its id, or ``None``."""
        return self._tools.get(id)

    def list(self, permissions: Iterable[str] | None = None) -> list[AnyTool]:
        """Return the actions that need any of these permissions, by id; all for ``None``, none for an empty iterable.

        It is a filter, not authorisation: an unlisted action is not forbidden, and a listed one not allowed.
        """
        tools = [tool for _, tool in sorted(self._tools.items())]
        granted = None if permissions is None else frozenset(permissions)
        return [tool for tool in tools if granted is None or tool.permissions & granted]

    async def execute(self, id: str, params: Mapping[str, Any], context: ExecutionContext) -> ActionResult:
        """Execute an action, governed and on record; ``params`` are of the tool's own types.

        Raises the refusal of an action whose handler was not reached: ``NotFound``, ``PermissionDenied``,
        ``InvalidArguments``, ``LimitExceeded``, ``StoreError``, …. Every outcome of the handler is returned as a
        result.
        """
        if not isinstance(context, ExecutionContext):  # pyright: ignore[reportUnnecessaryIsInstance]  # as above
            raise DefinitionError(f"context is an ExecutionContext(user=Principal(…)); got {context!r:.80}")
        session = await self._session(context)
        call = session.ask(session.message(id, params))
        await execute(call)
        if call.error is None:
            return ActionResult(True, None if call.value is MISSING else call.data, record=call.id)
        if call.decided.kind != "allow":  # set only once every stage before the handler has passed
            raise call.error
        return ActionResult(False, error=call.error.message, failure=call.error, record=call.id)

    async def _session(self, context: ExecutionContext) -> Session:
        """Return the principal's session, opened again for another environment, which gets a snapshot of its own."""
        user, env = context.user, dict(context.env)
        agent, sessions = self._agent, self._sessions
        async with self._opening:
            known = sessions.get(user)
            if known is None or known[2] != env:
                row = self._kernel.new_session(agent, user) if known is None else known[0]
                session = await self._kernel.enter(row, agent, principal=user, env=env)
                if known is None:
                    await self._kernel.store.sessions.create(row)
                sessions[user] = known = row, session, env
        sessions.move_to_end(user)
        if len(sessions) > MAX_SESSIONS:
            sessions.popitem(last=False)
        return known[1]
