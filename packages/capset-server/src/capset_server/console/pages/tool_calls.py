"""Calls of a session's tools by hand, with a form built from the tool's schema."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from starlette.responses import Response

from capset.errors import Field, InvalidArguments, NotFound
from capset_server.console.api import RestAnswer
from capset_server.console.forms import Form
from capset_server.console.markup import SHOWN
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.schema_forms import fields_of, values_of
from capset_server.console.transcripts.events import preview

_LARGE: Final = 256 * 1024
"""Results above this size, in bytes, are parsed in a thread."""


async def show_form(page: PageRequest) -> Response:
    """Show the tools in play, and the form of the chosen one."""
    name = page.query.get("tool")
    return await _form(page, None if name is None else await _tool(page, name))


async def call_tool(page: PageRequest) -> Response:
    """Call a tool with the values of the form, or repeat a call, and show the result below the form."""
    tool = await _tool(page, page.form.get("tool", ""))
    try:
        arguments = _again(page.form) or values_of(tool["schema"], page.form)
    except InvalidArguments as error:
        return await _form(page, tool, errors=error.fields, refusal=error.message)
    body: dict[str, Any] = {"tool": tool["name"], "arguments": arguments}
    if (approval := page.form.text("approval")) is not None:
        body["approval"] = approval
    began = time.perf_counter()
    answer = await page.api.ask("POST", "sessions", page.params["id"], "calls", content=json.dumps(body).encode())
    seconds = time.perf_counter() - began
    reply = await _said(answer)
    fields = [Field(field["path"], field["expected"], field.get("did_you_mean")) for field in reply.get("fields") or ()]
    if answer.status == 422 and fields:
        return await _form(page, tool, errors=fields, refusal=str(reply.get("detail")), record=reply.get("record"))
    if answer.status >= 400 and "record" not in reply:
        answer.json()  # raises: the request was refused before it reached the tool
    result = await asyncio.to_thread(preview, reply.get("data"), SHOWN)
    approval = reply.get("approval")
    request = None if approval is None else await page.api.find("approvals", approval)
    return await _form(
        page,
        tool,
        said={**reply, "data": None},
        result=result,
        seconds=seconds,
        approval=approval,
        request=request,
        arguments=arguments,
    )


async def _said(answer: RestAnswer) -> dict[str, Any]:
    is_large = len(answer.body) > _LARGE
    parsed = await asyncio.to_thread(json.loads, answer.body) if is_large else json.loads(answer.body)
    return cast("dict[str, Any]", parsed)


def _again(form: Form) -> dict[str, Any] | None:
    """Return the arguments of a repeated call, ``None`` for a new one. Raises ``InvalidArguments``."""
    if "again" not in form:
        return None
    try:
        arguments = json.loads(form["again"])
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise InvalidArguments("Invalid form: the arguments of the previous call must be a JSON object")
    return cast("dict[str, Any]", arguments)


async def _tool(page: PageRequest, name: str) -> Mapping[str, Any]:
    tools = await page.api.get("sessions", page.params["id"], "tools", name=name or "?")
    if not tools["items"]:
        raise NotFound(f"the tool {name!r} is not in play in this session")
    return tools["items"][0]


async def _form(
    page: PageRequest,
    tool: Mapping[str, Any] | None,
    *,
    errors: Sequence[Field] = (),
    refusal: str = "",
    **call_values: Any,  # what the template shows of a finished call
) -> Response:
    session = page.params["id"]
    snapshot = await page.api.get("sessions", session, "snapshot")
    form = page.form if page.request.method == "POST" and "again" not in page.form else None
    values = call_values.get("arguments") if form is None else None
    fields = () if tool is None else fields_of(tool["schema"], values, errors=errors, form=form)
    context: dict[str, Any] = {"said": None, "approval": None, "request": None, "record": None, **call_values}
    return page.render(
        "sessions/call.html",
        http_status=422 if refusal and not page.is_fragment else 200,
        session=session,
        tools=[snapshot_tool for snapshot_tool in snapshot["tools"] if snapshot_tool["in_play"]],
        left_out=sum(not snapshot_tool["in_play"] for snapshot_tool in snapshot["tools"]),
        tool=tool,
        fields=fields,
        others=[error for error in errors if not _is_at_a_field(error, fields)],
        refusal=refusal,
        again=json.dumps(context.get("arguments") or {}),
        **context,
    )


def _is_at_a_field(error: Field, fields: Sequence[Any]) -> bool:
    """Return whether a form shows an error at one of its fields."""
    return any(field.error == error.expected or _is_at_a_field(error, field.fields) for field in fields)


ROUTES = (
    PageRoute("GET", "/sessions/{id}/call", show_form),
    PageRoute("POST", "/sessions/{id}/call", call_tool),
)
