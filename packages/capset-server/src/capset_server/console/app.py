"""The console as one ASGI endpoint: its routes, sign-in, protection against forged forms, and error pages."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capset.errors import CapsetError, PermissionDenied, Unauthenticated
from capset_server.auth.callers import Caller, InsufficientScope
from capset_server.auth.sign_ins import SignInKind, SignIns, is_foreign
from capset_server.auth.signing_keys import KeySource
from capset_server.console import assets, pages
from capset_server.console.api import Api, RestRefusal
from capset_server.console.forms import Form, read_form
from capset_server.console.login import Login
from capset_server.console.markup import address, render
from capset_server.console.page import HTML, MenuEntry, PageRequest, PageRoute, root_of
from capset_server.console.pages import administration
from capset_server.http.request_context import RequestContext, note_refusal, request_context
from capset_server.http.request_rules import HttpRefusal
from capset_server.http.responses import answer_problem, hide_store_details
from capset_server.http.routes import Routes
from capset_server.service import Service

SIGN_IN: Final = SignInKind("capset_console", 12 * 3600, "/v1", same_site="Lax")
TOKEN_HEADER: Final = "x-capset-token"  # noqa: S105 - the name of a header
_TOKEN_FIELD: Final = "token"  # noqa: S105 - the name of a field
_ABOUT: Final = "console"
MENU: Final = (
    MenuEntry("Home", "", None, "⌂"),
    MenuEntry("Approvals", "approvals", "capset:approve", "✓"),
    MenuEntry("Agents", "agents", "capset:read", "◆"),
    MenuEntry("Sessions", "sessions", "capset:call", "❯"),
    MenuEntry("Runs", "runs", "capset:observe", "▷"),
    MenuEntry("Connections", "connections", "capset:call", "⚯"),
    MenuEntry("Capabilities", "capabilities", "capset:read", "❖"),
    MenuEntry("MCP servers", "servers", "capset:admin", "⇄"),
    MenuEntry("Audit", "audit", "capset:audit", "≡"),
    MenuEntry("Fingerprints", "fingerprints", "capset:read", "#"),
    MenuEntry("Administration", "administration", "capset:audit", "⚙", more=tuple(administration.TABS)),
)


def _page_routes() -> list[PageRoute]:
    """Return the routes of all modules of pages, fixed segments before parameters: "new" is not an id."""
    modules = (import_module(f"{pages.__name__}.{module_info.name}") for module_info in iter_modules(pages.__path__))
    routes = [route for module in modules for route in getattr(module, "ROUTES", ())]
    return sorted(routes, key=lambda route: [part.startswith("{") for part in route.path.split("/")])


PAGE_ROUTES: Final = _page_routes()
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Console:
    """The console of a server. ``rest`` is the REST application for requests with a known caller."""

    def __init__(self, service: Service, keys: KeySource, rest: ASGIApp, rest_routes: Routes) -> None:
        self._service = service
        self._rest = rest
        self._rest_routes = rest_routes
        self._sign_ins = SignIns(SIGN_IN, service, keys)
        self._login = Login(service, self._sign_ins, keys)
        routes = [
            Route(assets.PATH, assets.show_asset),
            *self._login.routes(),
            *map(self._page_route, PAGE_ROUTES),
        ]
        self._router = Router(routes, redirect_slashes=False)
        self.paths = frozenset(template_of(route.path) for route in routes)
        """The templates of all paths of the console, as the middleware matches them."""

    def serves(self, scope: Scope, request_info: RequestContext) -> bool:
        """Return whether a request is for a page, or comes from a browser that looks for one that does not exist."""
        if request_info.route is not None:
            return request_info.route in self.paths
        return scope["method"] in ("GET", "HEAD") and b"text/html" in request_info.headers.get(b"accept", b"")

    async def identify(self, scope: Scope, request_info: RequestContext) -> Caller | None:
        """Return the signed-in caller, ``None`` if there is none or the path needs none."""
        if request_info.route == template_of(assets.PATH):
            return None
        return self._service.callers.anyone or await self._sign_ins.caller(self._login.cookie(scope, request_info))

    async def __call__(self, id: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Raises ``HttpRefusal`` for a method that the path does not support."""
        try:
            inner = {**scope, "root_path": scope.get("root_path", ""), "app": self}  # so that the router raises
            await self._router(inner, receive, _with_headers(send))
        except HTTPException as error:
            raise HttpRefusal(
                error.status_code, "method_not_allowed", "This page does not support the method"
            ) from None

    async def fail(self, scope: Scope, receive: Receive, send: Send, error: CapsetError) -> None:
        """Answer with an error page; htmx gets only the message, for the page's message area.

        A client without an ``Accept`` header is not a browser, and gets problem details.
        """
        info = request_context(scope)
        if not info.header(b"accept"):
            return await answer_problem(send, error, info.correlation)
        response = await self._failure(Request(scope, receive), error)
        return await response(scope, receive, _with_headers(send))

    def _page_route(self, route: PageRoute) -> Route:
        async def answer(request: Request) -> Response:
            try:
                page = await self._open(request)
                return page if isinstance(page, Response) else await route.handler(page)
            except CapsetError as error:
                return await self._failure(request, error)

        return Route(route.path, answer, methods=[route.method], name=f"{route.method} {route.path}")

    async def _open(self, request: Request) -> PageRequest | Response:
        """Return the page request, or a redirect to the sign-in. Refuses forms from outside this sign-in's pages."""
        info = request_context(request.scope)
        if info.caller is None:
            return self._login.lead_there(request)
        cookie = self._login.cookie(request.scope, info)
        form = Form(())
        if request.method != "GET":
            if is_foreign(info.headers, self._service.public_url):
                raise PermissionDenied("Permission denied: this form came from another site. Nothing was done.")
            is_upload = request.method == "PUT"
            form = form if is_upload else read_form(await request.body(), request.headers.get("content-type", ""))
            token = request.headers.get(TOKEN_HEADER) or form.get(_TOKEN_FIELD, "")
            if not await self._sign_ins.is_own_form(token, cookie, _ABOUT):
                raise PermissionDenied(
                    "Permission denied: this form is no longer valid. Nothing was done.",
                    hint="load the page again, and sign in if you are asked to",
                )
        return await self._page(request, info.caller, form, cookie)

    async def _page(self, request: Request, caller: Caller, form: Form, cookie: str) -> PageRequest:
        api = Api(self._rest, self._rest_routes, request.scope, await self._sign_ins.authorization(cookie))
        token = await self._sign_ins.form_token(cookie, _ABOUT)
        sign_out = partial(self._login.sign_out, request)
        is_signed_in = partial(self._is_signed_in, cookie)
        return PageRequest(request, self._service, api, caller, form, token, MENU, sign_out, is_signed_in)

    async def _is_signed_in(self, cookie: str) -> bool:
        return self._service.callers.anyone is not None or await self._sign_ins.caller(cookie) is not None

    async def _failure(self, request: Request, error: CapsetError) -> Response:
        info = request_context(request.scope)
        note_refusal(info, error)
        if isinstance(error, Unauthenticated):
            return self._login.lead_there(request)
        public_error = hide_store_details(error, info.correlation)
        is_fragment = request.headers.get("hx-request") == "true"
        values = {"error": public_error, "phrase": _phrase(public_error.status), "correlation": info.correlation}
        if info.caller is not None and not is_fragment:
            with suppress(CapsetError):  # without the store, there is no menu either
                page = await self._page(request, info.caller, Form(()), self._login.cookie(request.scope, info))
                lacks_scope = isinstance(error, InsufficientScope) or (
                    isinstance(error, RestRefusal) and error.lacks_scope
                )
                return page.render("refusal.html", http_status=public_error.status, lacks_scope=lacks_scope, **values)
        root = root_of(request.scope)
        values |= {
            "url": address(root),
            "is_known": info.caller is not None,
            "asset": partial(assets.asset_path, root),
        }
        template = "failure.html" if is_fragment else "error.html"
        return Response(render(template, values), public_error.status, media_type=HTML)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def template_of(path: str) -> str:
    """Convert a path in Starlette's syntax to a template of the middleware: without converters."""
    return re.sub(r":\w+}", "}", path)


def _with_headers(send: Send) -> Send:
    """Wrap ``send`` to add the headers of every page."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message["headers"]))
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            message = {**message, "headers": headers.raw}
        await send(message)

    return sent
