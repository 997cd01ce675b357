"""The capability of an API: its pinned operations, each a tool that calls the API (spec 7, M8)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from capset.definitions.calls.contexts import Context
from capset.definitions.capabilities import Capability
from capset.definitions.tools.definition import AnyTool, make_tool
from capset.definitions.tools.schema_tools import returns_schema
from capset.errors import DefinitionError, PermissionDenied
from capset.kernel.kernel import Kernel
from capset.schemas.json_schema import compile_json_schema
from capset.stores.base.pins import ToolPin
from capset_connect.openapi.api import OpenApi
from capset_connect.openapi.client import OpenApiClient
from capset_connect.openapi.operations import is_named, names_of, rules_for
from capset_connect.openapi.uploads import takes_files, upload_policy, with_uploads
from capset_connect.pins.guard import Guard
from capset_connect.pins.tool_pins import Approved, approved_in, capability_with, pins_of, shape_of
from capset_connect.tool_rules import RuleNames, options_of, unknown_arguments


@asynccontextmanager
async def open_apis(kernel: Kernel, apis: Iterable[OpenApi]) -> AsyncGenerator[Sequence[Capability]]:
    """Yield the capabilities of APIs, ``api:NAME`` each, with the operations that are pinned in the kernel's store.

    The first call of an operation reads its document. If an API has no pins yet and is trusted at its first use, its
    document is read at once; ``DefinitionError`` is raised for declared operations, tags and security schemes that it
    does not have. Raises ``DefinitionError`` for two APIs of the same name, and for damaged pins.
    """
    named: dict[str, OpenApi] = {}
    for api in apis:
        if named.setdefault(api.name, api) is not api:
            raise DefinitionError(f"there are two APIs named {api.name!r}")
    capabilities: list[Capability] = []
    for api in named.values():
        client = OpenApiClient(api, kernel.secrets)
        pins = await pins_of(kernel, api, client.first_offers)
        capabilities.append(capability_of(client, pins, approved_in(kernel, api)))
    yield capabilities


def capability_of(client: OpenApiClient, pins: Sequence[ToolPin], approved: Approved | None) -> Capability:
    """Return the capability of an API with its pinned and selected operations.

    ``approved`` looks up, at each call, which of them are still approved; ``None`` if approvals cannot be withdrawn.
    Raises ``DefinitionError`` for damaged pins.
    """
    api = client.api
    shapes = {pin.tool: shape_of(pin) for pin in pins}
    used = {api.tool_name(pin.tool): pin for pin in pins if is_named(api, shapes[pin.tool])}
    # An approved operation may be gone from the document; a rule for it is still valid.
    pinned_names = {name for shape in shapes.values() for name in names_of(shape)}
    rules = RuleNames(api.rules, lambda _: client.names | pinned_names)
    guard = Guard(api, client.offers, used, approved, rules=rules, last_offers=lambda: client.known_offers)
    tools = [_tool(client, guard, name, shapes[pin.tool]) for name, pin in sorted(used.items())]
    return capability_with(api, tools)


def _tool(client: OpenApiClient, guard: Guard, name: str, shape: Mapping[str, Any]) -> AnyTool:
    api = client.api
    owner = f"tool {name!r}"
    schema = compile_json_schema(f"{owner}: its arguments", shape["inputSchema"])
    sends_files = takes_files(shape["arguments"])
    policies = [*guard.policies_of(name), *([upload_policy(f"api:{name}", shape["arguments"])] if sends_files else [])]
    options: dict[str, Any] = {} if api.auth is None else {"credential": api.pin_key}
    options |= options_of(
        f"api:{name}",
        rules_for(api, shape),
        permissions=api.permissions,
        policies=policies,
        timeout=api.timeout,
        names=schema.names,
        unknown=[argument for key in names_of(shape) for argument in unknown_arguments(api.rules, key, schema.names)],
    )
    return make_tool(
        name,
        shape["description"],
        options,
        arguments=schema,
        output=returns_schema(owner, None),
        parameters=tuple(schema.names),
        shape="async",
        takes_context=sends_files or api.auth is not None,
        handler=_handler(client, guard, name, shape),
        title=shape.get("title"),
    )


def _handler(client: OpenApiClient, guard: Guard, name: str, shape: Mapping[str, Any]) -> Callable[..., Awaitable[Any]]:
    sends_files = takes_files(shape["arguments"])

    async def call(*context: Context, **arguments: Any) -> Any:  # JSON
        if (reason := await guard.verify(name)) is not None:
            raise PermissionDenied(reason)
        if sends_files:
            arguments = await with_uploads(context[0], shape["arguments"], arguments)
        with guard.until_withdrawn(name):
            user = None if client.api.auth is None else await client.user_secrets(context[0])
            return await client.call(shape, arguments, user)

    return call
