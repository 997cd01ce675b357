"""The protocol side of MCP: the SDK's server, with capset's handlers, and completion of arguments."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any, Final, TypeAlias, TypeVar, cast

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    InputResponseRequestParams,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)
from opentelemetry.trace import Span, SpanKind, StatusCode, use_span
from pydantic import ValidationError

from capset.composition.installation import InstalledTool
from capset.errors import CapsetError, unknown
from capset.kernel.call.session import Session
from capset.kernel.telemetry import conventions as names
from capset.kernel.telemetry.tracing import parent_of, tracing_of
from capset_server.auth.signing_keys import FixedKey, KeySource
from capset_server.mcp.calls import Report, public_text
from capset_server.mcp.changes import METHOD as LISTEN
from capset_server.mcp.changes import Listeners, listen
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.offers import parameters_of, prompts_of, resources_of
from capset_server.mcp.prompts import INSTRUCTIONS, get_prompt, instructions_of, list_prompts
from capset_server.mcp.questions import TASKS, McpClient
from capset_server.mcp.request_state import seal_states
from capset_server.mcp.resources import (
    FILES_TEMPLATE,
    files_of,
    list_resources,
    list_templates,
    may_read_files,
    read_resource,
)
from capset_server.mcp.tasks import METHODS, TaskParams, Tasks, TaskUpdateParams
from capset_server.mcp.tools import call_tool, list_tools

MAX_VALUES: Final = 100
"""Maximum number of completions that the protocol allows."""


McpServer: TypeAlias = Server[dict[str, Any]]
"""The SDK's server; its lifespan value is not used."""
Asked: TypeAlias = ServerRequestContext[dict[str, Any], Any]
"""A request to the server; the transport's own request object can be of any type, and is not used either."""

A = TypeVar("A", bound=InputResponseRequestParams)
T = TypeVar("T")
_WELCOMES = ("initialize", "server/discover")
_log = logging.getLogger("capset.mcp")
_KNOWN: Final = frozenset(
    {
        *("initialize", "server/discover", "ping", "tools/list", "tools/call", "prompts/list", "prompts/get"),
        *("resources/list", "resources/templates/list", "resources/read", "completion/complete", LISTEN),
        *("notifications/initialized", "notifications/cancelled", "notifications/progress"),
        *METHODS,
    }
)
_OF_ALL_TOOLS: Final = frozenset(
    {
        *("prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/read"),
        "completion/complete",
    }
)
"""The methods that callers limited to single tools may not use."""
_OTHER: Final = "_OTHER"
_SDKS_OWN: Final = "OpenTelemetryMiddleware"
_MAX_ID: Final = 100
"""The maximum length of a request's id, which the client chooses."""


def make_server(
    exchange: Callable[[], Exchange],
    keys: KeySource | None = None,
    tasks: Tasks | None = None,
    listeners: Listeners | None = None,
) -> McpServer:
    """Return a server that answers from the session of ``exchange()``, over any transport.

    ``keys`` seal the state of calls that ask their client something, and the ids of ``tasks``; the default is a new
    key. ``listeners`` are the streams of changes, if the caller has to wake or end them.
    """
    key_source = keys or FixedKey(secrets.token_bytes(32))
    its_tasks = tasks or Tasks(key_source)
    listening = Listeners() if listeners is None else listeners

    async def on_list(ctx: Asked, params: PaginatedRequestParams | None) -> ListToolsResult:
        _refuse_cursor(params, "tools")
        current = exchange()
        return list_tools(await current.session.current(), current)

    async def on_call(
        ctx: Asked, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult | dict[str, Any]:
        if not await exchange().may_call(params.name):
            raise MCPError(INVALID_PARAMS, "This needs a credential with the scope for this tool")
        return await calling(ctx, params, partial(call_tool, tasks=its_tasks))

    async def on_list_prompts(ctx: Asked, params: PaginatedRequestParams | None) -> ListPromptsResult:
        _refuse_cursor(params, "prompts")
        return list_prompts(await exchange().session.current())

    async def on_get_prompt(ctx: Asked, params: GetPromptRequestParams) -> GetPromptResult | InputRequiredResult:
        return await calling(ctx, params, get_prompt)

    async def on_list_resources(ctx: Asked, params: PaginatedRequestParams | None) -> ListResourcesResult:
        return await list_resources(exchange().session, params.cursor if params is not None else None)

    async def on_list_templates(ctx: Asked, params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        _refuse_cursor(params, "templates")
        return list_templates(await exchange().session.current())

    async def on_read(ctx: Asked, params: ReadResourceRequestParams) -> ReadResourceResult | InputRequiredResult:
        return await calling(ctx, params, read_resource)

    async def on_completion(ctx: Asked, params: CompleteRequestParams) -> CompleteResult:
        return await complete(exchange().session, params)

    async def on_listen(ctx: Asked, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        current = exchange()
        with current.calling(ctx.request_id):
            return await listen(listening, current, ctx, params)
        raise MCPError(REQUEST_CANCELLED, "Request cancelled")

    async def calling(ctx: Asked, params: A, make: Callable[[Exchange, A, Report, McpClient], Awaitable[T]]) -> T:
        """Answer a request that may call a tool, and can be cancelled."""
        if params.input_responses is None and "input_responses" in params.model_fields_set:
            # The SDK treats null as absent here.
            raise MCPError(INVALID_PARAMS, "inputResponses must be an object: leave it out where there are none")
        current = exchange()
        with current.calling(ctx.request_id):
            try:
                return await make(current, params, ctx.session.report_progress, McpClient(ctx, params, current.asking))
            finally:
                listening.ring(current.session.id)
        raise MCPError(REQUEST_CANCELLED, "Request cancelled")

    def input_schema(name: str) -> Mapping[str, Any] | None:
        installed = exchange().session.snapshot.tools.get(name)
        return installed.tool.arguments.json_schema if installed else None

    server: McpServer = Server(
        "capset",
        version=version("capset"),
        on_list_tools=on_list,
        on_list_prompts=on_list_prompts,
        on_get_prompt=on_get_prompt,
        on_list_resources=on_list_resources,
        on_list_resource_templates=on_list_templates,
        on_read_resource=on_read,
        on_completion=on_completion,
        on_subscriptions_listen=on_listen,
        # Without it, the SDK would list every tool before each call.
        get_tool_input_schema=input_schema,
    )

    server.add_request_handler("tools/call", CallToolRequestParams, on_call)  # its results may be tasks
    _add_tasks(server, its_tasks, exchange)

    trace_messages(server, lambda: exchange().session)
    server.middleware.append(_contain)
    server.middleware.append(_limit(exchange))
    server.middleware.append(_welcome(exchange))
    server.middleware.append(seal_states(exchange, key_source))
    return server


def _add_tasks(server: McpServer, tasks: Tasks, exchange: Callable[[], Exchange]) -> None:
    """Add the handlers of tasks to a server."""

    async def on_get(ctx: Asked, params: TaskParams) -> dict[str, Any]:
        return await tasks.get(ctx, params, exchange())

    async def on_update(ctx: Asked, params: TaskUpdateParams) -> dict[str, Any]:
        return await tasks.update(ctx, params, exchange())

    async def on_cancel(ctx: Asked, params: TaskParams) -> dict[str, Any]:
        return await tasks.cancel(ctx, params, exchange())

    get, update, cancel = METHODS
    server.add_request_handler(get, TaskParams, on_get)
    server.add_request_handler(update, TaskUpdateParams, on_update)
    server.add_request_handler(cancel, TaskParams, on_cancel)
    server.extensions[TASKS] = {}


def _welcome(exchange: Callable[[], Exchange]) -> ServerMiddleware[dict[str, Any]]:
    """Return middleware that tells a client in the handshake what it may use, and the instructions for it."""

    async def welcome(ctx: Asked, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method not in _WELCOMES:
            return result
        answer = cast("dict[str, Any]", result)
        if exchange().tools is not None:
            return answer | {"capabilities": {"tools": answer["capabilities"]["tools"]}}
        text = await exchange().session.system_text()
        return answer | ({"instructions": text} if text else {})

    return welcome


def _limit(exchange: Callable[[], Exchange]) -> ServerMiddleware[dict[str, Any]]:
    """Return middleware that refuses requests about all tools to callers who may use only some."""

    async def limit(ctx: Asked, call_next: CallNext) -> HandlerResult:
        if ctx.method in _OF_ALL_TOOLS and exchange().tools is not None:
            raise MCPError(INVALID_PARAMS, "This needs a credential with the scope capset:call")
        return await call_next(ctx)

    return limit


def _refuse_cursor(params: PaginatedRequestParams | None, noun: str) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(INVALID_PARAMS, f"There is one page of {noun}: leave the cursor out")


async def _contain(ctx: Asked, call_next: CallNext) -> HandlerResult:
    """Let protocol errors through and hide unexpected ones: the SDK's older transport would send their text."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except CapsetError as error:
        raise MCPError(INTERNAL_ERROR, public_text(error, ctx.method)) from None
    except Exception:
        _log.exception("the request %r failed", ctx.method)
        raise MCPError(INTERNAL_ERROR, "Internal error; the log has the details") from None


def trace_messages(server: Server[dict[str, Any]], session: Callable[[], Session]) -> None:
    """Give every message a span instead of the SDK's, if the calls of ``session()`` are traced."""
    server.middleware[:] = [middleware for middleware in server.middleware if type(middleware).__name__ != _SDKS_OWN]
    server.middleware.append(_Traced(session))


class _Traced:
    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    async def __call__(self, ctx: Asked, call_next: CallNext) -> HandlerResult:
        session = self._session()
        tracing = tracing_of(session.observers)
        if tracing is None:
            return await call_next(ctx)
        method = ctx.method if ctx.method in _KNOWN else _OTHER
        tool = _tool_of(ctx, session)
        traceparent = (ctx.meta or {}).get("traceparent")
        around, links = parent_of(traceparent if isinstance(traceparent, str) else None)
        span = tracing.tracer.start_span(
            f"{method} {tool}" if tool else method, around, SpanKind.SERVER, _attributes(ctx, method, tool), links
        )
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                result = await call_next(ctx)
            except BaseException as error:
                _failed(span, error)
                raise
            match result:
                case CallToolResult(is_error=True) | {"isError": True}:
                    span.set_attribute(names.ERROR_TYPE, "tool_error")
                    span.set_status(StatusCode.ERROR)
                case _:
                    pass
            return result


def _tool_of(ctx: Asked, session: Session) -> str | None:
    """Return the name of the tool that a message calls, if that tool is known here."""
    name = (ctx.params or {}).get("name") if ctx.method == "tools/call" else None
    return name if isinstance(name, str) and name in session.snapshot.tools else None


def _attributes(ctx: Asked, method: str, tool: str | None) -> dict[str, str]:
    attributes = {names.MCP_METHOD: method, names.MCP_VERSION: ctx.protocol_version}
    if ctx.request_id is not None:
        attributes[names.JSONRPC_ID] = str(ctx.request_id)[:_MAX_ID].encode(errors="replace").decode()
    if tool is not None:
        attributes[names.TOOL_NAME] = tool
    return attributes


def _failed(span: Span, error: BaseException) -> None:
    """Mark a message as failed, with its code only; the error's text may contain the caller's data."""
    if isinstance(error, MCPError | ValidationError):
        code = str(error.error.code if isinstance(error, MCPError) else INVALID_PARAMS)
        span.set_attributes({names.ERROR_TYPE: code, names.RPC_STATUS: code})
    else:
        span.set_attribute(names.ERROR_TYPE, type(error).__name__)
    span.set_status(StatusCode.ERROR)


async def complete(session: Session, params: CompleteRequestParams) -> CompleteResult:
    """Return the possible values of an argument that begin with the typed text, ignoring case.

    These are the choices and examples in the schema of the tool's parameter, or the paths of the session's files.
    Raises ``MCPError`` for an unknown prompt, template or argument.
    """
    name, typed = params.argument.name, params.argument.value.casefold()
    values = await _values(session, params, name)
    fitting = [text for text in dict.fromkeys(values) if text.casefold().startswith(typed)]
    first_matches = fitting[:MAX_VALUES]
    return CompleteResult(
        completion=Completion(values=first_matches, total=len(fitting), has_more=len(fitting) > len(first_matches))
    )


async def _values(session: Session, params: CompleteRequestParams, name: str) -> Iterable[str]:
    snapshot, ref = await session.current(), params.ref
    if isinstance(ref, PromptReference):
        prompts = {installed.name: installed for _, installed in prompts_of(snapshot)}
        instruction_prompts = [f"{capability}{INSTRUCTIONS}" for capability in instructions_of(snapshot)]
        if ref.name in instruction_prompts:
            raise MCPError(INVALID_PARAMS, f"the prompt {ref.name!r} takes no arguments")
        if ref.name not in prompts:
            raise MCPError(INVALID_PARAMS, unknown("prompt", ref.name, [*prompts, *instruction_prompts]))
        return _choices(prompts[ref.name], name, prompts[ref.name].tool.parameters)
    if ref.uri == FILES_TEMPLATE and may_read_files(snapshot):
        if name != "path":
            raise MCPError(INVALID_PARAMS, unknown("argument", name, ["path"]))
        return [file.path[1:] for file in await files_of(session)]
    resources = {offer.uri: (offer, installed) for offer, installed in resources_of(snapshot)}
    if ref.uri not in resources:
        raise MCPError(INVALID_PARAMS, unknown("resource template", ref.uri, resources))
    offer, installed = resources[ref.uri]
    return _choices(installed, name, offer.variables)


def _choices(installed: InstalledTool, name: str, argument_names: Iterable[str]) -> list[str]:
    if name not in argument_names:
        raise MCPError(INVALID_PARAMS, unknown("argument", name, argument_names))
    defs = installed.tool.arguments.json_schema.get("$defs", {})
    # The tool of a resource may take the whole URI instead of the variables of the template.
    return list(_texts(parameters_of(installed).get(name, {}), defs))


def _texts(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that a schema names: choices, a constant, examples."""
    if "$ref" in schema:
        yield from _texts(cast("Mapping[str, Any]", defs.get(str(schema["$ref"]).rpartition("/")[2], {})), defs)
    for option in schema.get("anyOf", ()):
        yield from _texts(option, defs)
    for choice in (*schema.get("enum", ()), schema.get("const"), *schema.get("examples", ())):
        if isinstance(choice, str):
            yield choice
