"""The session: the entry point of every call, by any caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from sys import float_info
from typing import Any, Final, Literal, ParamSpec, Self, TypeGuard, cast

from pydantic import BaseModel
from typing_extensions import TypeVar

from capset.clock import iso
from capset.definitions.calls.clients import CallClient
from capset.definitions.calls.messages import Json, Message, Meta, message_of
from capset.definitions.governance.limits import Budget
from capset.definitions.names import checked_text
from capset.definitions.resources import Resource, Scope
from capset.definitions.tools.definition import AnyTool, Tool
from capset.errors import InvalidArguments
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.kernel.blocks.generation import Journal
from capset.kernel.blocks.runs import BlockRun, run_root
from capset.kernel.call.child_contexts import resolve_dynamically
from capset.kernel.call.compilation import check_only_tool
from capset.kernel.call.compiled_tools import CompiledTool
from capset.kernel.call.dispatch import bind_arguments, resolve_name, resolve_tool, to_result
from capset.kernel.call.errors import without_causes
from capset.kernel.call.execution import NO_OPTIONS, STORED, CallOptions, Origin, execution_of, has_scope
from capset.kernel.call.invocation import Invocation, Observer
from capset.kernel.call.pipeline import execute, execute_check
from capset.kernel.call.prompt import Prompt, prompt_of
from capset.kernel.call.session_context import SessionContext
from capset.kernel.call.stages.access import Resolve, refusing_tool
from capset.kernel.call.suspended_calls import SuspendedCall, find_suspended
from capset.kernel.call.truncation import Truncated, truncate_content, truncate_for_model
from capset.kernel.governance.consumption import Consumption, session_consumption
from capset.kernel.governance.quotas import SessionLimits
from capset.kernel.results import Result
from capset.kernel.revocation import Credential, RevocationWatch
from capset.kernel.state.files import SessionFiles
from capset.kernel.streams.duplex import Duplex
from capset.kernel.streams.messages import Messages
from capset.stores.base import Quota

MAX_RUN_ID_CHARACTERS: Final = 200
"""Maximum length of a run's id."""

P = ParamSpec("P")
R = TypeVar("R")


class Session:
    """One conversation: its agent, its principal, its files, and the snapshot of the callable tools.

    Created by ``kernel.open()``. All methods that call a tool use the same pipeline.
    """

    __slots__ = ("_budget", "_compiled", "_context", "_options", "_timeout")

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        is_static = not context.snapshot.composition.dynamic
        self._compiled: Mapping[AnyTool, CompiledTool] = context.compiled.by_tool if is_static else {}
        """Tools that need no lookup; empty if there are dynamic ``uses``."""
        self._options = NO_OPTIONS
        """The options of its calls, except the deadline, which follows from the timeout."""
        self._timeout: float | None = None
        self._budget: Budget | None = None
        """The run's own budget."""

    @property
    def id(self) -> str:
        """The session's UUIDv7; pass it to open the session again."""
        return self._context.id

    @property
    def snapshot(self) -> Snapshot:
        """The tools in play, the reasons why the others are excluded, and the hashes that every record carries.

        It covers static ``uses``; ``await session.current()`` includes the additions of dynamic ``uses``.
        """
        return self._context.snapshot

    @property
    def observers(self) -> tuple[Observer, ...]:
        """The observers of its calls."""
        return self._context.runtime.observers

    @property
    def files(self) -> SessionFiles:
        """The session's files, for the host: operations on them are neither governed nor recorded."""
        return self._context.files

    def options(
        self,
        *,
        timeout: float | None = None,
        consumer_timeout: float | None = None,
        approvals: Literal["wait", "defer"] | None = None,
        approval: str | None = None,
        budget: Budget | None = None,
        run: str | None = None,
        credential: Credential | None = None,
        client: CallClient | None = None,
    ) -> Self:
        """Return this session with other options for the calls made through it; omitted options stay unchanged.

        ``timeout`` is the maximum duration of a call in seconds; ``consumer_timeout`` is how many seconds a reader of
        its messages may make it wait (spec 3, K16). ``approvals`` says what happens to a call that needs an approval:
        with ``wait``, the default, it waits; with ``defer``, it is refused with ``ApprovalRequired``, which has the
        request's id. ``approval`` is such an id: the approved call is allowed (spec 4, G18). Without one, a call uses
        the approval of an equal call. ``budget`` limits the total use of one run: the calls made through the returned
        session, and the calls that they make. ``run`` is the id of a run to continue, with its use so far; by default,
        a new run begins. ``credential`` is what the caller acts with, such as an API key: each call checks that it is
        still valid, and is cancelled if it is withdrawn while the call runs or waits. ``client`` answers the requests
        that handlers make with ``ctx.ask_client``.
        """
        changes: dict[str, Any] = {}
        if approvals is not None:
            if approvals not in ("wait", "defer"):
                raise InvalidArguments(f"approvals must be 'wait' or 'defer'; got {approvals!r}")
            changes["defers_approval"] = approvals == "defer"
        for name, seconds in (("timeout", timeout), ("consumer_timeout", consumer_timeout)):
            if seconds is not None and not seconds > 0:
                raise InvalidArguments(f"{name} must be a positive number of seconds; got {seconds!r}")
        settings = {
            "approval": approval,
            "credential": credential,
            "consumer_timeout": consumer_timeout,
            "client": client,
        }
        changes |= {name: value for name, value in settings.items() if value is not None}
        other = type(self)(self._context)
        other._timeout, other._budget = self._timeout, self._budget
        if budget is not None:
            other._budget = budget
        if budget is not None or run is not None:
            changes["quota"] = other._run_quota(run)
        if timeout is not None:
            other._timeout = timeout
        other._options = self._options._replace(**changes)
        return other

    def until_withdrawn(self) -> AbstractContextManager[object]:
        """Return a context manager that cancels the work inside once the caller's credential is withdrawn.

        It then raises ``Unauthenticated`` or ``PermissionDenied``, which name what was withdrawn.
        """
        credential = self._options.credential
        return nullcontext() if credential is None else RevocationWatch(credential.check)

    async def call(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a tool and return its result.

        Raises ``NotFound``, ``PermissionDenied``, ``InvalidArguments`` or ``StoreError`` if the call is refused;
        ``ToolError``, ``DeadlineExceeded``, ``InternalError`` or ``NoOutcome`` if the tool failed.
        """
        call = self._call(tool, args, kwargs)
        await execute(call)
        return call.result()

    async def try_call(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Result[R]:
        """Call a tool and return its outcome, including refusals and failures."""
        call = self._call(tool, args, kwargs)
        await execute(call)
        return to_result(call, call.value)

    def stream(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Messages:
        """Call a tool and read its messages: ``async with session.stream(…) as messages``."""
        return Messages(self._call(tool, args, kwargs))

    def invoke(self, message: Message | BaseModel) -> Messages:
        """Send a command or a query, and read the messages in response.

        ``message`` is a ``Message`` or an instance of a processor's inbound model. Its ``type`` is ``tool`` or
        ``capability.tool``, and ``data`` holds the arguments: a mapping, validated as Python, or ``Json``, validated as
        JSON. Queries are for tools with the effect ``read``, commands for all others (spec 3, K1). ``type`` may also be
        a processor's message type; ``data`` must then fit its inbound type. The correlation, the deadline and the
        traceparent in ``meta`` are preserved. Raises ``DefinitionError`` for an object that is not a message.
        """
        return Messages(self.invocation_of(message))

    def open(self, type: str | AnyTool) -> Duplex:
        """Open a duplex stream to a processor, by its message type, or to a tool or a tool's name; see ``Duplex`` (K8).

        If the tool is a function, each message is a separate call. Raises ``DefinitionError`` for anything else.
        """
        find = resolve_tool(type) if isinstance(type, Tool) else resolve_name(type)
        return Duplex(self._context.runtime, find(self._context), self.invocation_of)

    async def try_message(self, message: Message, *, absent: Any = None) -> Result[Any]:
        """Send a message as ``invoke`` does, and return its outcome; the result's data is plain JSON data.

        ``absent`` is the data of a call that succeeds without a reply. Use this method if you need no events: without a
        reader, the call runs in its caller's own task, unless it has a timeout or a deadline. In that case it runs in a
        task of the kernel, which is abandoned if the handler does not stop in time (K15).
        """
        call = self.invocation_of(message)
        tool = call.compiled.tool
        if call.options.deadline is None and (tool is None or tool.timeout is None):
            await execute(call)
        else:
            async with Messages(call) as events:
                async for _ in events:
                    pass
        return to_result(call, call.data, absent)

    async def check(self, message: Message) -> Result[Any] | None:
        """Run the checks of a call without starting its handler, and return its refusal, or ``None``.

        A refusal is recorded. A call that nothing refuses leaves no record and counts towards no limit, since it is not
        made. With ``approvals="defer"``, a call that needs an approval is refused with ``ApprovalRequired``, and its
        request is open from then on; otherwise the check waits for the approval. Every check is repeated when the call
        is made.
        """
        call = self.invocation_of(message, is_checked=True)
        await execute_check(call)
        return None if call.error is None else to_result(call, None)

    async def suspended(self, approval: str) -> SuspendedCall:
        """Return the call of this session that an approval request is for, by the request's id.

        Raises ``NotFound`` for a request of another session or principal.
        """
        return await find_suspended(self._context, approval)

    async def current(self) -> Snapshot:
        """Return the snapshot for a call made now: the session's own, with the additions of its dynamic ``uses``."""
        return (await without_causes(self._context.runtime, self._step().settle())).snapshot

    async def system_text(self, input: object = None) -> str:
        """Return the system text of a model's next step: instructions, prompt and current context.

        ``input`` is passed to context functions that take ``(input, context)``. Raises ``ContextError`` if one fails.
        """
        return (await self.prompt(input)).system_text

    async def prompt(self, input: object = None) -> Prompt:
        """Return the prompt of a model's next step: its system text, messages, model settings, and the tools in play.

        For adapters that can pass on all of these. ``input`` and the errors are as for ``system_text``.
        """
        step = self._step()
        await without_causes(self._context.runtime, step.settle())
        return await without_causes(self._context.runtime, prompt_of(step, input))

    async def run(
        self, input: Any = None, *, journal: Journal | None = None
    ) -> Any:  # of the types that the flow declares
        """Run the flow or the block of this session, and return its output.

        With a ``journal``, the run of an agent is a turn of that conversation (``capset_agents.turns``).

        Raises ``InvalidArguments`` for an input and ``InvalidOutput`` for an output that does not fit,
        ``DeadlineExceeded``, and the errors of inner blocks; other exceptions become ``InternalError``.
        """
        run = BlockRun(self._context, self._options_now(), journal=journal)
        return await without_causes(self._context.runtime, run_root(run, input))

    async def exposed(self) -> Mapping[Scope, Mapping[str, Any]]:  # JSON data
        """Return the state and resources that clients may read, as JSON data by scope and name."""
        return await exposed(self._step())

    async def consumption(self) -> list[Consumption]:
        """Return the limits and budgets of this session and its tools, and how much of each has been used."""
        return await session_consumption(self._context)

    async def for_model(
        self, record: str, data: Any, *, content: Sequence[Mapping[str, Any]] | None = None, after: str = ""
    ) -> Truncated:  # JSON data
        """Return a result of this session as a model receives it: complete, or cut to ``result_bytes``.

        For interfaces that pass results to models. ``record`` is the id of the call's record. ``content`` is the
        result's own: if it is given, the model receives it instead of ``data``. See ``kernel.call.truncation``.
        """
        if content is not None:
            return await truncate_content(self._context, record, content)
        return await truncate_for_model(self._context, record, data, after=after)

    def _step(self) -> BlockRun:
        return BlockRun(self._context, self._options_now())

    def _run_quota(self, run: str | None) -> Quota | None:
        context = self._context
        if run is not None and not (
            checked_text("a run's id", run).isprintable() and 0 < len(run) <= MAX_RUN_ID_CHARACTERS
        ):
            raise InvalidArguments(
                f"a run's id must be printable text of 1–{MAX_RUN_ID_CHARACTERS} characters; got {run!r:.80}"
            )
        limits = context.limits or SessionLimits((), None, None)
        return limits.run_quota(context.id, run or context.runtime.ids.new(), self._budget)

    def invocation_of(self, request: Message | BaseModel, *, is_checked: bool = False) -> Invocation:
        """Return the call that a message makes, not started yet; for internal use."""
        message = request if isinstance(request, Message) else message_of(request)
        meta, resolve = message.meta, resolve_name(message.type)

        def resolve_checked(context: SessionContext) -> CompiledTool:
            compiled = resolve(context)
            is_added = message.type not in self._context.compiled.by_name
            if problem := _message_error(compiled, message, is_added=is_added):
                return refusing_tool(compiled, InvalidArguments(f"Invalid message: {problem}"))
            return check_only_tool(compiled) if is_checked else compiled

        compiled = self._resolve(resolve_checked, message.type)
        options = self._options_now()
        if meta is not None:
            options = options._replace(cause=(str(meta.correlation), str(meta.id)), traceparent=meta.traceparent)
            if _is_moment(meta.deadline):
                remaining = meta.deadline - self._context.runtime.clock.time_ns() / 1e9
                end = asyncio.get_running_loop().time() + remaining
                options = options._replace(deadline=end if options.deadline is None else min(end, options.deadline))
        return Invocation(self._context, compiled, _raw_arguments(compiled, message), options)

    def message(self, tool: str, data: Mapping[str, Any] | Json, *, correlation: str | None = None) -> Message:
        """Return the message that calls a tool by its name: a query if the tool only reads, otherwise a command.

        ``data`` holds the arguments, of the tool's own types. ``correlation`` ties the call to its cause.
        """
        compiled, runtime = resolve_name(tool)(self._context), self._context.runtime
        meta = Meta(runtime.ids.new(), iso(runtime.clock.time_ns()), correlation) if correlation is not None else None
        return Message(compiled.kind, tool, data, meta)

    def _call(self, tool: AnyTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Invocation:
        compiled = self._compiled.get(tool)
        if compiled is None:
            compiled = self._resolve(resolve_tool(tool), tool.name)
        arguments = bind_arguments(tool, args, kwargs) if args else kwargs
        return Invocation(
            self._context, compiled, arguments, self._options if self._timeout is None else self._options_now()
        )

    def _resolve(self, find: Resolve, name: str) -> CompiledTool:
        context = self._context
        return resolve_dynamically(context, name, find) if context.snapshot.composition.dynamic else find(context)

    def _options_now(self) -> CallOptions:
        """Return the options for a call or a run that starts now."""
        if self._timeout is None:
            return self._options
        return self._options._replace(deadline=asyncio.get_running_loop().time() + self._timeout)


def _raw_arguments(compiled: CompiledTool, message: Message) -> Any:  # unvalidated arguments
    """Return the arguments in a message; a processor's data that is not an object becomes ``{"data": …}`` (K4)."""
    contract, data = compiled.tool and compiled.tool.contract, message.data
    if compiled.tool and contract is not None and contract.is_whole and message.type == contract.type:
        if data is None and not compiled.tool.arguments.json_schema.get("required"):
            return {}  # without data, the default applies
        return Json(b'{"data":%b}' % data.text) if isinstance(data, Json) else {"data": data}
    return {} if data is None else data


def _message_error(compiled: CompiledTool, message: Message, *, is_added: bool) -> str | None:
    """Return what is wrong with a message as a whole, or ``None``.

    A tool added by dynamic ``uses`` accepts a command too, since its caller cannot know that it only reads.
    """
    if compiled.tool is None:
        return None  # the call is refused for another reason
    if message.kind != compiled.kind and not (is_added and message.kind == "command"):
        return f"{compiled.tool.name!r} takes a {compiled.kind}, not a {message.kind}"
    if (meta := message.meta) is None:
        return None
    for name in ("id", "correlation"):
        if not isinstance(getattr(meta, name), str):
            return f"the {name} of a message must be text, not {type(getattr(meta, name)).__name__}"
    if meta.deadline is not None and not _is_moment(meta.deadline):
        return "a deadline must be a finite number of seconds, in Unix time"
    return None


def _is_moment(deadline: object) -> TypeGuard[float]:
    """Whether a deadline is a number that is neither NaN nor too large for a float, as an integer can be."""
    is_number = isinstance(deadline, int | float) and not isinstance(deadline, bool)
    return is_number and abs(cast("float", deadline)) <= float_info.max


async def exposed(origin: Origin) -> Mapping[Scope, Mapping[str, Any]]:
    """Return the values named by ``expose=``, as JSON data.

    A scope that does not exist here, or belongs to a run, is left out; so is a resource without a default before its
    first write.
    """
    execution, context = execution_of(origin), origin.context
    await execution.load()
    readable = context.snapshot.composition.exposed
    by_scope: dict[Scope, dict[str, Any]] = {}
    for scope in STORED:
        if not has_scope(context, scope):
            continue
        values: dict[str, Any] = {}
        if fields := {name for kind, of, name in readable if (kind, of) == ("state", scope)}:
            values |= execution.view(scope).model_dump(mode="json", include=fields)
        for name, resource in execution.resources(scope).items():
            if ("resource", scope, name) in readable and isinstance(resource, Resource):
                handle = execution.resource(resource)
                if resource.make_default is not None or await handle.exists():
                    values[name] = resource.schema.jsonable(await handle.get())
        if values:
            by_scope[scope] = values
    return by_scope
