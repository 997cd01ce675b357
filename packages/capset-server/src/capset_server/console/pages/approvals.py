"""The inbox: approval requests, what approvers need to know about them, and their decisions."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import Any, Final, cast

from starlette.responses import Response

from capset.definitions.secrets import MASK
from capset.errors import CapsetError, Field, InvalidArguments
from capset_server.console.api import RestRefusal
from capset_server.console.comparisons import changes_since_approved, earlier_requests, fingerprint_of, run_of
from capset_server.console.forms import Form
from capset_server.console.inbox_rows import present_arguments, round_in, rows_of, selected_requests
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.pages.session_files import SHOWN, FileContent, text_of
from capset_server.console.schema_forms import FormField, fields_of, values_of

# REST returns JSON data, so functions that take parts of it take ``Any``.
_PLACE: Final = ("tool", "agent", "principal", "order")
"""The filters and the order of the list, which the pages of its requests keep: they say which request is next."""
_STEP: Final = len("2026-01-31T00:00:0")
"""Length of the part of a time that changes every ten seconds, to refresh ages if nothing else has changed."""
_LISTED: Final = 100
"""The number of requests on a page of the list: as many as REST decides at once."""
_BESIDE: Final = 20
_OF_ARGUMENTS: Final = (400, 413, 422)
"""Refusals for which the form is shown again: invalid JSON, too large, or invalid for the tool."""
_CHANGED: Final = ("\\r", "\\u0000")
"""Characters that browsers change in form fields, as JSON escapes them."""
_IN_PART: Final = "the list shows only part of this request: open it to approve it"
_EDITED: Final = 100_000
"""The maximum size of arguments for a form, in characters of JSON."""


async def list_approvals(page: PageRequest) -> Response:
    """Show the open requests, or those of another status. The page polls this path every two seconds."""
    return await _list(page)


async def decide_selected(page: PageRequest) -> Response:
    """Approve or reject the selected requests of the list. If some could not be decided, the list says why."""
    answer, note = page.form.get("answer", ""), page.form.text("note")
    is_approval = answer == "approve"
    selected = selected_requests(page.form.every("request"))
    place = {**_place(page), "status": page.query.get("status"), "cursor": page.query.get("cursor")}
    if not selected:
        return page.redirect("approvals", **place, told="Nothing was selected, so nothing was decided.")
    failures = {request.id: _IN_PART for request in selected if is_approval and request.round is None}
    members = [
        {"id": request.id, "round": request.round} if is_approval else {"id": request.id}
        for request in selected
        if request.id not in failures
    ]
    outcomes: list[Any] = []
    if members:
        body = {"answer": answer, "requests": members, "note": note}
        outcomes = (await page.api.send("POST", "approvals", "decisions", body=body))["items"]
    failures |= {outcome["id"]: outcome["error"]["message"] for outcome in outcomes if outcome["error"]}
    statuses = Counter(outcome["approval"]["status"] for outcome in outcomes if outcome["approval"])
    message = " ".join(_summary(status, count, note) for status, count in statuses.items())
    if not failures:
        return page.redirect("approvals", **place, told=message)
    undecided = [(failed, await page.api.find("approvals", failed), reason) for failed, reason in failures.items()]
    return await _list(page, http_status=409, undecided=undecided, told=message, note=note or "")


def _summary(status: str, count: int, note: str | None) -> str:
    """Return what several decisions have done, by the status of the requests after them."""
    if status == "pending":
        requests = "1 request that still needs" if count == 1 else f"{count} requests that still need"
        return f"Your approval is recorded for {requests} other approvers."
    if status == "rejected" and note:
        return f"Rejected: {count}. The callers can read your reason."
    return f"{status.capitalize()}: {count}."


async def _list(page: PageRequest, http_status: int = 200, **values: Any) -> Response:  # what the template shows
    page.caller.check("capset:approve")
    filters = {**_place(page), "cursor": page.query.get("cursor")}
    status = filters["status"] = page.query.get("status", "pending")
    listed = {**filters, "status": None if status == "all" else status, "limit": _LISTED}
    requests = await page.api.get("approvals", **listed)
    summary = await page.api.find("approvals", "summary")
    tag = _tag(page, requests, summary)
    if page.is_fragment and page.query.get("seen") == tag:
        return Response(status_code=204)
    effects = {request["tool_hash"]: None for request in requests["items"]}
    for tool_hash in effects:
        tool = await fingerprint_of(page, tool_hash)
        effects[tool_hash] = tool and tool.get("effect")
    template = "approvals/inbox.html" if page.is_fragment else "approvals/list.html"
    defaults = {
        "found": requests,
        "rows": rows_of(requests["items"]),
        "summary": summary,
        "effects": effects,
        "status": status,
        "asked": filters,
        "place": _place(page),
        "tag": tag,
        "undecided": (),
        "note": "",
    }
    return page.render(template, http_status=http_status, **{**defaults, **values})


async def list_beside(page: PageRequest) -> Response:
    """Show a short list of the open requests, beside the selected one."""
    place = _place(page)
    requests = await page.api.get("approvals", status="pending", limit=_BESIDE, **place)
    tag = _tag(page, requests)
    if page.query.get("seen") == tag:
        return Response(status_code=204)
    return page.render("approvals/beside.html", found=requests, tag=tag, chosen=page.params["id"], place=place)


async def show_approval(page: PageRequest) -> Response:
    """Show a request and the form that decides it; ``shown`` reveals masked arguments."""
    return await _detail(page, await page.api.get("approvals", page.params["id"]))


async def show_file(page: PageRequest) -> Response:
    """Show a file that a request's arguments name, in the version that the approval covers, or download it."""
    request = await page.api.get("approvals", page.params["id"])
    async with AsyncExitStack() as stack:
        answer = await stack.enter_async_context(
            page.api.open("approvals", request["id"], "files", page.params["number"])
        )
        file = request["files"][int(page.params["number"])]
        if "download" in page.query:
            return FileContent(file["path"], answer, stack.pop_all(), is_image=False)
        content = await answer.read(SHOWN) if int(answer.headers["content-length"]) <= SHOWN else None
    text = None if content is None else await asyncio.to_thread(text_of, content)
    return page.render(
        "approvals/file.html",
        request=request,
        file=file,
        text=text,
        number=page.params["number"],
        carried=_carried(page),
    )


async def show_standing(page: PageRequest) -> Response:
    """Show the current state of a request, and its decision form if the state has changed.

    If an approver has changed the arguments since the page was loaded, it is loaded again: nothing is approved unseen.
    """
    request = await page.api.get("approvals", page.params["id"])
    if page.query.get("round") != str(request["round"]):
        message = "An approver has changed the arguments."
        return page.redirect("approvals", request["id"], told=message, **_carried(page))
    tag = _tag(page, request)
    if page.query.get("seen") == tag:
        return Response(status_code=204)
    values = await _deciding(page, request)
    has_moved = page.query.get("state") != values["state"]
    return page.render("approvals/standing.html", **values, tag=tag, has_moved=has_moved)


async def show_conversation(page: PageRequest) -> Response:
    """Show the conversation before a request. REST records that it was read."""
    request = await page.api.get("approvals", page.params["id"])
    conversation = await page.api.get("approvals", request["id"], "conversation")
    template = "approvals/messages.html" if page.is_fragment else "approvals/conversation.html"
    return page.render(template, request=request, found=conversation, carried=_carried(page))


async def approve(page: PageRequest) -> Response:
    """Approve a call as it was shown, once or for the session."""
    body = {"scope": page.form.get("scope", "once"), "note": page.form.text("note"), "round": _round(page.form)}
    return await _decide(page, "approve", body)


async def reject(page: PageRequest) -> Response:
    """Reject a call, with a reason that its caller reads."""
    return await _decide(page, "reject", {"note": page.form.text("note")})


async def edit(page: PageRequest) -> Response:
    """Show the arguments in a form to edit and approve them; ``shown`` reveals masked ones."""
    return await _form(page, await _shown(page, await page.api.get("approvals", page.params["id"])))


async def approve_edited(page: PageRequest) -> Response:
    """Approve a call with edited arguments. Invalid ones come back with the errors at their fields."""
    request = await page.api.get("approvals", page.params["id"])
    if request["status"] != "pending":
        return await _detail(page, request, http_status=409, is_late=True)
    schema = await _schema(page, request)
    try:
        arguments = _json(page.form) if "json" in page.form else values_of(schema or {}, page.form)
        if masked := [*_masked(arguments)]:
            expected = "the whole value: a secret is masked here, and the call would be made with the mask"
            raise InvalidArguments(
                "Invalid form: a secret is masked", fields=[Field(path, expected) for path in masked]
            )
        body = {"arguments": arguments, "note": page.form.text("note")}
        done = await page.api.send("POST", "approvals", request["id"], "approve", body=body)
    except InvalidArguments as error:
        return await _form(page, await _shown(page, request), error)
    except RestRefusal as error:
        if error.status in _OF_ARGUMENTS:
            return await _form(page, await _shown(page, request), error)
        return await _refused(page, error)
    return page.redirect("approvals", request["id"], told=_told(done, "approve"), **_place(page))


def _place(page: PageRequest) -> dict[str, str | None]:
    """Return the filters and the order of the list that a page belongs to."""
    return {name: page.query.get(name) for name in _PLACE}


def _carried(page: PageRequest) -> dict[str, Any]:
    """Return the parameters of links within a request: its place in the list, and whether masked arguments show."""
    return {**_place(page), "shown": page.query.get("shown") and 1}


async def _shown(page: PageRequest, request: Any) -> Any:
    """Return a request; if the page shows masked arguments, with only its schema's declared secrets masked."""
    if not request["masked"] or "shown" not in page.query:
        return request
    view = await page.api.get("approvals", request["id"], "arguments")
    return {**request, "arguments": view["arguments"], "modified": view["modified"], "masked": False}


async def _decide(page: PageRequest, answer: str, body: Mapping[str, Any]) -> Response:
    members = {name: value for name, value in body.items() if value is not None}
    try:
        done = await page.api.send("POST", "approvals", page.params["id"], answer, body=members)
    except RestRefusal as error:
        return await _refused(page, error)
    return page.redirect("approvals", page.params["id"], told=_told(done, answer), **_place(page))


async def _refused(page: PageRequest, error: RestRefusal) -> Response:
    """Show the current request with REST's message. If someone else has decided it, the page says who."""
    if error.status not in (403, 409, 422):
        raise error
    request = await page.api.get("approvals", page.params["id"])
    is_late = error.status == 409 and request["status"] != "pending"
    return await _detail(page, request, http_status=error.status, is_late=is_late, error=error)


async def _detail(
    page: PageRequest,
    request: Any,
    *,
    http_status: int = 200,
    is_late: bool = False,
    error: CapsetError | None = None,
) -> Response:
    tool = await fingerprint_of(page, request["tool_hash"])
    return page.render(
        "approvals/detail.html",
        http_status=http_status,
        **{**await _deciding(page, request), "request": await _shown(page, request)},
        tag=_tag(page, request),
        is_late=is_late,
        error=error,
        tool=tool,
        run=await run_of(page, request),
        since=await changes_since_approved(page, request, tool),
        earlier=await earlier_requests(page, request),
        is_whole=page.query.get("all") == "1",
    )


async def _deciding(page: PageRequest, request: Any) -> dict[str, Any]:  # what templates show
    """Return the template values for the decision form of a request, or for its decision."""
    following = await _following(page, request) if request["status"] != "pending" else None
    has_to_do = request["status"] == "pending"
    parts = (request["status"], request["round"], len(request["approvals"]), request["decidable"], request["refusal"])
    return {
        "request": request,
        "following": following,
        "state": sha256(repr(parts).encode()).hexdigest()[:16],
        "can_edit": has_to_do and len(json.dumps(present_arguments(request))) <= _EDITED,
        "note": page.form.get("note", ""),
        "carried": _carried(page),
        "place": _place(page),
    }


async def _following(page: PageRequest, request: Any) -> Any:
    """Return the open request after another one in the order of the list, or else the first one.

    There is none for a caller that may only see the requests of its own sessions.
    """
    if not page.caller.has("capset:approve"):
        return None
    for cursor in (request["id"], None):
        waiting = await page.api.get("approvals", **_place(page), status="pending", cursor=cursor, limit=1)
        if waiting["items"]:
            return waiting["items"][0]
    return None


async def _form(page: PageRequest, request: Any, error: CapsetError | None = None) -> Response:
    arguments, errors = present_arguments(request), () if error is None else error.fields
    if request["status"] != "pending" or len(json.dumps(arguments)) > _EDITED:
        return page.redirect("approvals", request["id"], told="", **_place(page))
    schema = await _schema(page, request)
    fields: Sequence[FormField] = () if schema is None else fields_of(schema, arguments, form=page.form, errors=errors)
    is_json = "json" in page.form or page.query.get("as") == "json" or not _is_said(schema, fields, page, arguments)
    text = page.form.get("json") or json.dumps(arguments, indent=2, ensure_ascii=False)
    unplaced = {field.path for field in errors} - {name for field in fields for name in _paths(field)}
    return page.render(
        "approvals/edit.html",
        http_status=200 if error is None else 422,
        request=request,
        fields=() if is_json else fields,
        written=text,
        has_schema=schema is not None,
        error=error,
        others=errors if is_json else [field for field in errors if field.path in unplaced],
        note=page.form.get("note", ""),
        carried=_carried(page),
        is_masked=next(iter(_masked(arguments)), None) is not None,
    )


async def _schema(page: PageRequest, request: Any) -> dict[str, Any] | None:  # JSON Schema
    """Return the schema that the request's tool had, if it is known and has properties."""
    tool = await fingerprint_of(page, request["tool_hash"])
    schema: Any = None if tool is None else tool.get("schema")
    return cast("dict[str, Any]", schema) if isinstance(schema, dict) and "properties" in schema else None


def _is_said(schema: Any, fields: Sequence[FormField], page: PageRequest, arguments: Any) -> bool:
    """Return whether a form can represent the arguments: sent back unchanged, they are the same."""
    if schema is None or not isinstance(arguments, dict):
        return False
    if any(character in json.dumps(arguments) for character in _CHANGED):
        return False
    if page.form:
        return True  # decided when it was shown
    try:
        return values_of(schema, Form([*_sent(fields)])) == arguments
    except InvalidArguments:
        return False


def _sent(fields: Iterable[FormField]) -> Iterable[tuple[str, str]]:
    """Yield what a browser sends for unchanged fields; for a choice, only a value among its choices."""
    for field in fields:
        if field.fields:
            yield from _sent(field.fields)
        elif field.kind != "choice" or field.value in dict(field.choices):
            yield field.name, field.value


def _paths(field: FormField) -> Iterable[str]:
    """Yield the paths of the errors that are shown at a field, or at its nested fields."""
    yield ".".join(field.name.split("/")[1:])
    yield "/".join(field.name.split("/")[1:])
    for nested in field.fields:
        yield from _paths(nested)


def _masked(value: Any, path: str = "") -> Iterable[str]:
    """Yield the paths of texts in JSON data in which a secret is masked."""
    if isinstance(value, str):
        if MASK in value:
            yield path or "arguments"
        return
    members: Iterable[tuple[object, Any]] = ()
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        members = enumerate(cast("list[Any]", value))
    for key, member in members:
        yield from _masked(member, f"{path}.{key}" if path else str(key))


def _json(form: Form) -> Any:
    try:
        arguments = json.loads(form["json"])
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(f"Invalid form: the arguments are not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise InvalidArguments("Invalid form: the arguments are a JSON object, in braces")
    return cast("dict[str, Any]", arguments)


def _round(form: Form) -> int:
    shown_round = round_in(form.get("round", ""))
    if shown_round is None:
        raise InvalidArguments("Invalid form: it lacks the round that was shown; load the page again")
    return shown_round


def _told(done: Any, answer: str) -> str:
    if answer == "reject":
        return "Rejected. The caller can read your reason." if done["note"] else "Rejected."
    if done["status"] == "pending":
        return f"Your approval is recorded: {len(done['approvals'])} of {done['needs']['approvals']} are given."
    return "Approved for the session." if done["scope"] == "session" else "Approved."


def _tag(page: PageRequest, *contents: Any) -> str:
    """Return a tag that changes with anything that is shown, and every ten seconds."""
    now = page.service.kernel.now()[:_STEP]
    return sha256(json.dumps([now, *contents]).encode()).hexdigest()[:16]


ROUTES = (
    PageRoute("GET", "/approvals", list_approvals),
    PageRoute("POST", "/approvals/decisions", decide_selected),
    PageRoute("GET", "/approvals/{id}", show_approval),
    PageRoute("GET", "/approvals/{id}/beside", list_beside),
    PageRoute("GET", "/approvals/{id}/standing", show_standing),
    PageRoute("GET", "/approvals/{id}/conversation", show_conversation),
    PageRoute("GET", "/approvals/{id}/files/{number}", show_file),
    PageRoute("GET", "/approvals/{id}/edit", edit),
    PageRoute("POST", "/approvals/{id}/edit", approve_edited),
    PageRoute("POST", "/approvals/{id}/approve", approve),
    PageRoute("POST", "/approvals/{id}/reject", reject),
)
