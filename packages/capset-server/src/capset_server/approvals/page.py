"""``/approve/{id}``: the HTML page of an approval request, with the form that decides it (spec 7, M20)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Final
from urllib.parse import parse_qsl, quote

from starlette.types import Receive, Scope, Send

from capset.definitions.governance.approvals import Answer, ApprovalRow
from capset.errors import CapsetError, InvalidArguments, LimitExceeded, PermissionDenied, Unauthenticated
from capset.kernel.governance.file_arguments import file_at
from capset.wire.approvals import ApprovalShape, GrantedApprovalShape, approval_shape
from capset_connect.legible_text import whole_data
from capset_server.approvals.decisions import checked_note, decide_approval, find_approval, refusal_for
from capset_server.approvals.markup import Markup, headers, html, joined, page
from capset_server.auth.callers import Caller
from capset_server.auth.sign_ins import SignInKind, SignIns, cookie_name, cookie_of, is_foreign, set_cookie
from capset_server.auth.signing_keys import KeySource
from capset_server.http.paths import APPROVAL_PAGE
from capset_server.http.request_context import RequestContext, note_refusal, request_context
from capset_server.http.request_rules import HttpRefusal
from capset_server.http.responses import answer, answer_problem, hide_store_details
from capset_server.service import Service

_HTML: Final = b"text/html; charset=utf-8"
_FIELDS: Final = 5
_SHOWN: Final = 1_000_000
"""The maximum length of indented arguments, in characters; longer ones are shown on one line."""
_FILE_BYTES: Final = 4 * 1024 * 1024
"""The maximum size of a file that the page serves, in bytes."""
SIGN_IN: Final = SignInKind("capset_approver", 600, "/v1/approvals", "capset:approve")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_SIGN_IN: Final = (
    '<form method="post"><p><label>{credential} with the scope <code>capset:approve</code>'
    '<input type="password" name="key" autocomplete="off" spellcheck="false" autofocus></label></p>'
    '<p><button name="action" value="sign_in">Sign in</button></p></form>'
    "<p>It is checked, but not stored. A cookie, for this page alone, keeps you signed in for at most ten minutes.</p>"
)
_DECIDE: Final = (
    '<form method="post"><input type="hidden" name="token" value="{token}">'
    '<input type="hidden" name="round" value="{round}">'
    '<p><label>Reason<textarea name="note" rows="3" maxlength="1000"></textarea></label></p>'
    '<p>{approve}<button name="action" value="reject">Reject</button></p></form>'
)
_APPROVE: Final = Markup('<button name="action" value="approve">Approve this call</button>')
_REFUSED: Final = '<p role="note">You cannot approve this: {why}.</p>'
_CONSOLE: Final = (
    '<p>You are signed in to the console: <a href="../approvals/{id}">decide there</a>, '
    "with all details of this request.</p>"
)
_MASKED: Final = (
    '<p role="note">A part of these arguments is masked here, but the call will use all of them. '
    '<a href="?show=arguments">Show all of them</a>. An audit record will say that you read them.</p>'
)
_FILE: Final = "<li>{described} {link}</li>"
_LEAVE: Final = (
    '<form method="post"><input type="hidden" name="token" value="{token}">'
    '<p>Signed in as {who}. <button name="action" value="sign_out">Sign out</button></p></form>'
)


AtConsole = Callable[[Scope, RequestContext], Awaitable[Caller | None]]


class ApprovalEndpoint:
    """The endpoint of the page. It allows the same decisions, to the same callers, as ``/v1/approvals``."""

    def __init__(self, service: Service, keys: KeySource, at_console: AtConsole) -> None:
        """``at_console`` returns who is signed in to the console; the page links them to it."""
        self._at_console = at_console
        self._service = service
        self._sign_ins = SignIns(SIGN_IN, service, keys)

    async def __call__(self, id: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request_info = request_context(scope)
        if scope["method"] not in ("GET", "POST"):
            refused = HttpRefusal(405, "method_not_allowed", "Read this page with GET, and decide with POST")
            return await answer_problem(send, refused, request_info.correlation, (b"allow", b"GET, POST"))
        try:
            if scope["method"] == "GET":
                return await self._show(str(id), scope, send)
            content: bytes = (await receive())["body"]  # the middleware has read all of it
            return await self._take(str(id), content, scope, send)
        except CapsetError as error:
            note_refusal(request_info, error)
            public_error = hide_store_details(error, request_info.correlation)
            message = (
                public_error.message if public_error.hint is None else f"{public_error.message} ({public_error.hint})"
            )
            back = html('<p role="alert">{said}</p><p><a href="">Back</a></p>', said=message)
            return await self._answer(send, public_error.status, page("This action failed", back))

    async def _show(self, id: str, scope: Scope, send: Send) -> None:
        """Show the request to a signed-in caller. Anyone else gets the sign-in form, the same for every id."""
        request_info = request_context(scope)
        is_at_console = await self._at_console(scope, request_info) is not None
        elsewhere = html(_CONSOLE, id=quote(id, safe="")) if is_at_console else Markup()
        cookie = self._cookie(scope, request_info)
        caller = await self._sign_ins.caller(cookie)
        if caller is None:
            return await self._ask(send, 200, "", elsewhere)
        _note_caller(request_info, caller)
        row = await find_approval(self._service, caller, id)
        show = _query(scope).get("show", "")
        if _NUMBER.fullmatch(show):
            return await self._show_file(row, int(show), caller, send)
        request = approval_shape(row, partial(refusal_for, self._service, caller))
        if show == "arguments":
            caller.check("capset:approve")
            view = await self._service.kernel.approvals.show_arguments(row, by=caller.principal)
            unmasked = {"arguments": view.arguments, "modified": view.modified, "masked": False}
            request = request.model_copy(update=unmasked)
        token = await self._sign_ins.form_token(cookie, id)
        decide = _deciding(request, token) if request.status == "pending" else Markup()
        leave = html(_LEAVE, token=token, who=_named(caller))
        return await self._answer(send, 200, page(_title(request), elsewhere, _described(request), decide, leave))

    async def _show_file(self, row: ApprovalRow, number: int, caller: Caller, send: Send) -> None:
        """Show a file named in the arguments: as text, or else as a download."""
        caller.check("capset:approve")
        argument = file_at(row, number)
        path, size = argument.path, argument.size_bytes or 0
        if size > _FILE_BYTES:
            raise InvalidArguments(
                f"This page shows files of at most {_FILE_BYTES} bytes, and {path!r} has {size}: read it with "
                f"GET /v1/approvals/{row.id}/files/{number}"
            )
        file = await self._service.kernel.approvals.show_file(row, number, by=caller.principal)
        _, content = await file.read()
        try:
            text = content.decode() if b"\0" not in content else None
        except UnicodeDecodeError:
            text = None
        if text is None:
            attached = (b"content-disposition", b"attachment")
            return await answer(send, 200, b"application/octet-stream", content, *headers(), attached)
        about = html("<p>{bytes} bytes, SHA-256 {digest}</p>", bytes=str(size), digest=sha256(content).hexdigest())
        back = html('<pre>{text}</pre><p><a href="?">Back to the request</a></p>', text=text)
        return await self._answer(send, 200, page(path, about, back))

    def _cookie(self, scope: Scope, request_info: RequestContext) -> str:
        """Return the value of this page's sign-in cookie, ``""`` if there is none."""
        name = cookie_name(SIGN_IN, _cookie_path(scope), is_secure=self._is_secure(scope))
        return cookie_of(request_info.header(b"cookie"), name)

    def _set_cookie(self, scope: Scope, value: str) -> tuple[bytes, bytes]:
        return set_cookie(SIGN_IN, value, _cookie_path(scope), is_secure=self._is_secure(scope))

    def _is_secure(self, scope: Scope) -> bool:
        return scope["scheme"] == "https" or (self._service.public_url or "").startswith("https:")

    async def _take(self, id: str, content: bytes, scope: Scope, send: Send) -> None:
        """Apply a submitted form. Refuses a form from another site, or for another sign-in or request."""
        request_info = request_context(scope)
        if is_foreign(request_info.headers, self._service.public_url):
            raise PermissionDenied("Permission denied: this form came from another site.")
        form = _form(content, request_info.header(b"content-type"))
        action = form.get("action")
        location = (b"location", f"./{quote(id, safe='')}".encode())
        if action == "sign_in":
            client = str((scope.get("client") or ("",))[0])
            try:
                value = await self._sign_ins.begin_with(form.get("key", "").strip(), client)
            except (Unauthenticated, LimitExceeded) as error:
                return await self._ask(send, error.status, error.message)
            return await self._answer(send, 303, b"", location, self._set_cookie(scope, value))
        cookie = self._cookie(scope, request_info)
        caller = await self._sign_ins.caller(cookie)
        if caller is None:
            return await self._ask(send, 401, "You are no longer signed in. Nothing was decided.")
        _note_caller(request_info, caller)
        if not await self._sign_ins.is_own_form(form.get("token", ""), cookie, id):
            raise PermissionDenied("Permission denied: this form is no longer valid. Nothing was decided.")
        if action == "sign_out":
            await self._sign_ins.end(cookie)
            return await self._answer(send, 303, b"", location, self._set_cookie(scope, ""))
        if action not in ("approve", "reject"):
            raise InvalidArguments("Invalid form: action is approve or reject")
        approved = action == "approve"
        # Only the arguments that the page has shown can be approved: another round is a conflict.
        note = checked_note(form.get("note", "").replace("\r\n", "\n").strip() or None)
        answer = Answer(approved=approved, note=note, round=_round(form) if approved else None)
        await decide_approval(self._service, caller, id, answer)
        return await self._answer(send, 303, b"", location)

    async def _ask(self, send: Send, status: int, said: str, *before: Markup) -> None:
        """Send the sign-in form, below ``before`` and the message ``said``, if there is one."""
        credential = "An API key or a token" if self._service.callers.takes_tokens else "An API key"
        alert = html('<p role="alert">{said}</p>', said=said) if said else Markup()
        await self._answer(
            send, status, page("Sign in to decide", *before, alert, html(_SIGN_IN, credential=credential))
        )

    async def _answer(self, send: Send, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
        await answer(send, status, _HTML, body, *headers(), *more)


def _cookie_path(scope: Scope) -> str:
    """Return the ``Path`` of the sign-in cookie."""
    return scope.get("root_path", "") + APPROVAL_PAGE.removesuffix("/{id}")


def _query(scope: Scope) -> Mapping[str, str]:
    """Return the query parameters, none if the query is malformed."""
    try:
        return dict(parse_qsl(scope["query_string"].decode("ascii"), max_num_fields=1, errors="strict"))
    except ValueError:
        return {}


def _form(content: bytes, media_type: str) -> Mapping[str, str]:
    """Parse a form. Raises ``HttpRefusal`` if it is malformed, ``InvalidArguments`` if a field is repeated."""
    if media_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise HttpRefusal(415, "unsupported_media_type", "A form is application/x-www-form-urlencoded")
    try:
        fields = parse_qsl(
            content.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=_FIELDS,
            strict_parsing=True,
            errors="strict",
        )
    except ValueError:
        raise HttpRefusal(400, "invalid_form", "The form cannot be read") from None
    if len({name for name, _ in fields}) != len(fields):
        raise InvalidArguments("Invalid form: a field is given twice")
    return dict(fields)


def _round(form: Mapping[str, str]) -> int:
    """Return the round that the page has shown. Raises ``InvalidArguments`` if the form has none."""
    text = form.get("round", "")
    if not _NUMBER.fullmatch(text):
        raise InvalidArguments("Invalid form: round is a number; open the page again")
    return int(text)


def _deciding(request: ApprovalShape, token: str) -> Markup:
    """Return the decision form, without the approve button if the caller may not approve."""
    refused = html(_REFUSED, why=request.refusal) if request.refusal else Markup()
    approve = _APPROVE if request.decidable else Markup()
    return joined(refused, html(_DECIDE, token=token, round=str(request.round), approve=approve))


def _title(request: ApprovalShape) -> str:
    return f"Approve {request.tool}?" if request.status == "pending" else f"{request.tool}: {request.status}"


def _described(request: ApprovalShape) -> Markup:
    """Return everything that an approver has to know. Secrets are masked, as over REST."""
    asker = request.principal + (f" for {request.on_behalf_of}" if request.on_behalf_of else "")
    code = request.code
    details = {
        "Tool": request.tool,
        "Asked by": asker,
        "Why it needs an approval": request.reason,
        "Policies": ", ".join(request.policies),
        "Agent": request.agent,
        "Session": request.session,
        "Code": "" if code is None else f"{code.name} {code.version or ''}",
        "Asked at": request.created_at,
        "Expires at": request.expires_at,
        "Needs": "" if request.needs is None else request.needs.text,
        "Approved so far": "; ".join(map(_given, request.approvals)) if request.status == "pending" else "",
        "Escalates at": request.escalates_at or "",
        "Status": request.status,
        "Decided by": request.decided_by or "",
        "Reason": request.note or "",
    }
    rows = [html("<dt>{name}</dt><dd>{value}</dd>", name=name, value=value) for name, value in details.items() if value]
    arguments = _json("Arguments", request.arguments)
    modified = (
        Markup() if request.modified is None else _json("Arguments, as the approver changed them", request.modified)
    )
    masked = html(_MASKED) if request.masked else Markup()
    return joined(html("<dl>{rows}</dl>", rows=joined(*rows)), arguments, modified, masked, _files(request))


def _files(request: ApprovalShape) -> Markup:
    """Return the files that the arguments name, each with a link to its content."""
    if not request.files:
        return Markup()
    items: list[Markup] = []
    for number, file in enumerate(request.files):
        is_there = file.sha256 is not None
        facts = f"{file.size_bytes} bytes, SHA-256 {file.sha256}" if is_there else "missing"
        name = file.path or "a secret file"
        link = html('<a href="?show={number}">Read it</a>', number=str(number)) if is_there and file.path else Markup()
        items.append(html(_FILE, described=f"{file.argument}: {name}, {facts}", link=link))
    note = Markup("<p>The approval covers this content: if a file changes, the call needs a new approval.</p>")
    return joined(html("<h2>Files</h2><ul>{items}</ul>", items=joined(*items)), note)


def _given(approval: GrantedApprovalShape) -> str:
    on_behalf = f" for {approval.on_behalf_of}" if approval.on_behalf_of else ""
    return f"{approval.by}{on_behalf} at {approval.at}" + (f" ({approval.note})" if approval.note else "")


def _json(title: str, data: object) -> Markup:
    return html("<h2>{title}</h2><pre>{shown}</pre>", title=title, shown=whole_data(data, _SHOWN))


def _note_caller(request_info: RequestContext, caller: Caller) -> None:
    """Note the signed-in caller for the access log, like a caller identified by a header."""
    principal = caller.principal
    noted = {"principal": principal.id, "org": principal.org, "key": caller.key}
    request_info.notes.update({name: value for name, value in noted.items() if value is not None})


def _named(caller: Caller) -> str:
    principal = caller.principal
    return principal.qualified_id + (f" of {principal.org}" if principal.org else "")
