"""API keys: listing them, creating one that is shown once, and revoking them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final, get_args

from starlette.responses import Response

from capset.errors import Field, InvalidArguments
from capset_server.auth.keys import DEFAULT_SCOPES, Scope, scope_of
from capset_server.console.api import RestRefusal
from capset_server.console.forms import Form
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.pages.administration import kinds, render_tab
from capset_server.console.schema_forms import FormField, at_fields, fields_of, names_in, values_of

_ONCE: Final = re.compile(r"[\w-]{16,100}", re.ASCII)
_CONFLICT: Final = 409
_NAME: Final = "key"
"""Prefix of the names of the fields from ``_SCHEMA``."""
SCOPES: Final[Mapping[Scope, str]] = {
    "capset:read": "read capabilities, agents and fingerprints",
    "capset:call": "open sessions and call tools",
    "capset:write": "create and change agents",
    "capset:audit": "read the organisation's records",
    "capset:observe": "read the organisation's conversations and runs",
    "capset:approve": "decide approval requests",
    "capset:metrics": "read metrics",
    "capset:admin": "everything, keys included",
}
"""The scopes that the form offers, with their purposes."""


def _text(title: str, description: str) -> dict[str, Any]:
    return {"type": "string", "title": title, "description": description}


def _lines(title: str, description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "title": title, "description": description}


def _budget(title: str) -> dict[str, Any]:
    return {
        "type": "object",
        "title": title,
        "properties": {
            "calls": {"type": "integer", "title": "Calls"},
            "cost": {"type": "number", "title": "Cost of calls"},
        },
    }


_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": _text("Name", "What the key is for, such as the program that uses it."),
        "principal": _text("Principal", "Who makes the calls: the id in records and policies."),
        "kind": {"enum": kinds(), "title": "Kind of principal"},
        "org": _text("Organisation", "Empty for a key without an organisation, such as an operator's."),
        "expires": _text("Valid for", "Hours or days, such as 12h or 30d; 366d at most."),
        "permissions": _lines("Permissions", "At most your own, such as session_files:read."),
        "agent": _text("Default agent", "The id of the agent that /mcp serves."),
        "attributes": {"title": "Attributes", "description": 'Facts that policies rely on: {"tier": "gold"}.'},
        "allowance": {
            "type": "object",
            "title": "Allowance",
            "description": "It applies in addition to the server's and your own; the lowest limit counts.",
            "properties": {
                "limits": _lines("Limits on calls", "Such as 100/1h."),
                "usage": _lines("Limits on models", "Such as tokens=1000000/1d or cost=5/1d."),
                "session": _budget("Budget of each session"),
                "run": _budget("Budget of each run"),
            },
        },
    },
    "required": ["name", "principal", "kind", "expires"],
}
"""The fields of the form, except for the scopes. REST validates their values."""
_BEGIN: Final = {"kind": "user", "expires": "90d"}
_RIGHTS: Final = ("permissions",)
_MORE: Final = ("agent", "attributes", "allowance")
"""Fields that few keys need."""


async def list_keys(page: PageRequest) -> Response:
    """List keys, newest first; optionally those of a principal or, for operators, of an organisation."""
    filters = {name: page.query.get(name) for name in ("org", "principal", "cursor")}
    keys = await page.api.get("keys", **filters)
    return render_tab(page, "keys", "keys.html", {"found": keys, "asked": filters})


async def show_key(page: PageRequest) -> Response:
    """Show a key without its secret: the caller's own, or one that it administers."""
    return render_tab(page, "keys", "key.html", {"key": await page.api.get("keys", page.params["id"])})


async def new_key(page: PageRequest) -> Response:
    """Show the form of a new key."""
    page.caller.check("capset:admin")
    return _show_form(page, None)


async def make_key(page: PageRequest) -> Response:
    """Create a key, and show it only in this response. A form that is sent twice creates one key."""
    try:
        idempotency_key = page.form.get("once", "")
        if not _ONCE.fullmatch(idempotency_key):
            raise InvalidArguments(
                "Invalid form: its unique number is missing; load the page again. No key was created."
            )
        headers = {"idempotency-key": idempotency_key}
        created = await page.api.send("POST", "keys", body=read_key(page.form), headers=headers)
    except (RestRefusal, InvalidArguments) as error:
        if error.status == _CONFLICT:
            return render_tab(page, "keys", "key_made_before.html", {"error": error}, http_status=_CONFLICT)
        return _show_form(page, error)
    return render_tab(page, "keys", "key_made.html", {"made": created}, http_status=201)


async def revoke_key(page: PageRequest) -> Response:
    """Revoke a key. Revoking the caller's own key ends the sign-in."""
    key = page.params["id"]
    revoked = await page.api.send("POST", "keys", key, "revoke")
    if page.caller.key_id == key:
        return page.sign_out()
    return page.redirect(
        "keys", key, told=f"The key {revoked['name']} is revoked. Servers may accept it for another second."
    )


def read_key(form: Form) -> dict[str, Any]:
    """Return the key that a form describes, as REST accepts it. Raises ``InvalidArguments``."""
    body = values_of(_SCHEMA, form, name=_NAME)
    tools = [line.strip() for line in form.get("tools", "").splitlines() if line.strip()]
    if wrong := [tool for tool in tools if scope_of(tool) == "capset:call"]:
        raise InvalidArguments(
            "Invalid form: tools are expected as CAPABILITY.TOOL",
            fields=[Field("tools", f"CAPABILITY.TOOL is expected, one per line; got {wrong[0]!r:.80}")],
        )
    return {**body, "scopes": [*form.every("scope"), *map(scope_of, tools)]}


def _show_form(page: PageRequest, error: RestRefusal | InvalidArguments | None) -> Response:
    """Show the form: empty, or as it was sent with the errors at its fields."""
    form = None if error is None else page.form
    schema = _own_schema(page)
    problems, others = at_fields([] if error is None else error.fields, {*names_in(schema), "scopes", "tools"})
    messages = {problem.path: problem.expected for problem in problems}
    fields = {field.name: field for field in fields_of(schema, _BEGIN, name=_NAME, errors=problems, form=form)}
    rights, more = ([fields.pop(f"{_NAME}/{name}") for name in names] for names in (_RIGHTS, _MORE))
    values = {
        "fields": list(fields.values()),
        "rights": rights,
        "more": more,
        "is_more_open": form is not None and any(map(_is_filled, more)),
        "once": secrets.token_urlsafe(24) if form is None else form.get("once", ""),
        "scopes": [(scope, SCOPES[scope]) for scope in get_args(Scope) if page.caller.has(scope)],
        "chosen": DEFAULT_SCOPES if form is None else form.every("scope"),
        "tools": "" if form is None else form.get("tools", ""),
        "scopes_error": messages.get("scopes"),
        "tools_error": messages.get("tools"),
        "error": error,
        "others": others,
    }
    return render_tab(page, "keys", "key_form.html", values, http_status=200 if error is None else error.status)


def _is_filled(field: FormField) -> bool:
    return bool(field.value.strip() or field.error) or any(map(_is_filled, field.fields))


def _own_schema(page: PageRequest) -> dict[str, Any]:
    """Return the form's fields for a caller. One of an organisation creates keys of that organisation only."""
    if page.caller.principal.org is None:
        return _SCHEMA
    return {**_SCHEMA, "properties": {name: schema for name, schema in _SCHEMA["properties"].items() if name != "org"}}


ROUTES = (
    PageRoute("GET", "/keys", list_keys),
    PageRoute("POST", "/keys", make_key),
    PageRoute("GET", "/keys/new", new_key),
    PageRoute("GET", "/keys/{id}", show_key),
    PageRoute("POST", "/keys/{id}/revoke", revoke_key),
)
