"""``completion/complete``: values of the arguments of prompts and of the variables of resource templates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CompleteRequestParams, CompleteResult, Completion, PromptReference

from capset.composition.installation import Installed
from capset.errors import unknown
from capset.kernel.call.session import Session
from capset.server.mcp.offers import parameters_of, prompts_of, resources_of
from capset.server.mcp.prompts import INSTRUCTIONS, instructions_of
from capset.server.mcp.resources import FILES_TEMPLATE, files_of, may_read_files

MAX_VALUES: Final = 100
"""The most that the protocol allows."""


async def complete(session: Session, params: CompleteRequestParams) -> CompleteResult:
    """Return the values that an argument can have and that begin with what was typed, regardless of case.

    These are the choices and the examples in the schema of the tool's parameter, and paths for the session's files.
    Raises ``MCPError`` for a prompt, a template or an argument that there is not.
    """
    name, typed = params.argument.name, params.argument.value.casefold()
    values = await _values(session, params, name)
    fitting = [one for one in dict.fromkeys(values) if one.casefold().startswith(typed)]
    shown = fitting[:MAX_VALUES]
    return CompleteResult(completion=Completion(values=shown, total=len(fitting), has_more=len(fitting) > len(shown)))


async def _values(session: Session, params: CompleteRequestParams, name: str) -> Iterable[str]:
    snapshot, ref = await session.current(), params.ref
    if isinstance(ref, PromptReference):
        prompts = {installed.name: installed for _, installed in prompts_of(snapshot)}
        told = [f"{one}{INSTRUCTIONS}" for one in instructions_of(snapshot)]
        if ref.name in told:
            raise MCPError(INVALID_PARAMS, f"the prompt {ref.name!r} takes no arguments")
        if ref.name not in prompts:
            raise MCPError(INVALID_PARAMS, unknown("prompt", ref.name, [*prompts, *told]))
        return _choices(prompts[ref.name], name, prompts[ref.name].tool.parameters)
    if ref.uri == FILES_TEMPLATE and may_read_files(snapshot):
        if name != "path":
            raise MCPError(INVALID_PARAMS, unknown("argument", name, ["path"]))
        return [one.path[1:] for one in await files_of(session)]
    resources = {offer.uri: (offer, installed) for offer, installed in resources_of(snapshot)}
    if ref.uri not in resources:
        raise MCPError(INVALID_PARAMS, unknown("resource template", ref.uri, resources))
    offer, installed = resources[ref.uri]
    return _choices(installed, name, offer.variables)


def _choices(installed: Installed, name: str, known: Iterable[str]) -> list[str]:
    if name not in known:
        raise MCPError(INVALID_PARAMS, unknown("argument", name, known))
    defs = installed.tool.arguments.json_schema.get("$defs", {})
    # The tool of a resource may take the whole URI, and not what stands in a template.
    return list(_texts(parameters_of(installed).get(name, {}), defs))


def _texts(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that a schema names: choices, a constant, examples."""
    if "$ref" in schema:
        yield from _texts(cast("Mapping[str, Any]", defs.get(str(schema["$ref"]).rpartition("/")[2], {})), defs)
    for option in schema.get("anyOf", ()):
        yield from _texts(option, defs)
    for one in (*schema.get("enum", ()), schema.get("const"), *schema.get("examples", ())):
        if isinstance(one, str):
            yield one
