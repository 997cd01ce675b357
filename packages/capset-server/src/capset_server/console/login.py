"""Signing in to the console, and out of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from capset.errors import CapsetError, NotFound, PermissionDenied, Unauthenticated
from capset_server.auth.open_id import CALLBACK, OpenIdSignIn, SignInAttempt
from capset_server.auth.sign_ins import (
    MAX_COOKIE,
    SignInKind,
    SignIns,
    cookie_name,
    cookie_of,
    is_foreign,
    set_cookie,
)
from capset_server.auth.signing_keys import KeySource, decrypt, encrypt
from capset_server.console.assets import asset_path
from capset_server.console.forms import read_form
from capset_server.console.markup import address, render
from capset_server.console.page import HTML, cookie_path, root_of
from capset_server.http.request_context import RequestContext, request_context
from capset_server.service import Service

_ATTEMPT: Final = SignInKind("capset_sign_in", 600, CALLBACK, same_site="Lax")
"""A sign-in at the provider that is under way."""


class Login:
    """The sign-in pages: with an API key, or with a token of the issuer that the server trusts."""

    def __init__(self, service: Service, sign_ins: SignIns, keys: KeySource) -> None:
        self._service = service
        self._sign_ins = sign_ins
        self._keys = keys

    def routes(self) -> list[Route]:
        """Return the routes that need no sign-in."""
        return [
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/login/provider", self._go_to_provider),
            Route(CALLBACK, self._come_back),
            Route("/logout", self._logout, methods=["POST"]),
        ]

    def is_secure(self, scope: Scope) -> bool:
        """Return whether browsers reach this server over https."""
        return scope["scheme"] == "https" or (self._service.public_url or "").startswith("https:")

    def lead_there(self, request: Request) -> Response:
        """Send the user to the sign-in, and from there back to the requested page."""
        root = root_of(request.scope)
        is_read = request.method == "GET" and request.headers.get("hx-request") != "true"
        path = request.url.path.removeprefix(root)
        target = f"{path}?{request.url.query}" if request.url.query else path
        where = f"{root}/login" + (f"?next={quote(target, safe='')}" if is_read else "")
        if is_read:
            return Response(status_code=303, headers={"location": where})
        message = "You are no longer signed in. Nothing was done."
        if request.headers.get("hx-request") == "true":
            message += " Sign in in another window, and continue here."
        body = self._form(request, message, "")
        # Typed text must not be lost: only reads by htmx redirect away from the page.
        headers = {"hx-redirect": where} if request.method == "GET" else {}
        return Response(body, 401, headers=headers, media_type=HTML)

    async def _login(self, request: Request) -> Response:
        info = request_context(request.scope)
        following = local_path(request.query_params.get("next", ""))
        if request.method == "GET":
            if info.caller is not None:
                return self._onward(request, following)
            return Response(self._form(request, "", following), media_type=HTML)
        try:
            if is_foreign(info.headers, self._service.public_url):
                raise PermissionDenied("This form came from another site.")
            client = str((request.scope.get("client") or ("",))[0])
            form = read_form(await request.body(), request.headers.get("content-type", ""))
            following = local_path(form.get("next", ""))
            value = await self._sign_ins.begin_with(form.get("key", "").strip(), client)
        except CapsetError as error:
            return Response(self._form(request, error.message, following), error.status, media_type=HTML)
        response = self._onward(request, following)
        response.raw_headers.append(self._cookie(value, request.scope))
        return response

    async def _go_to_provider(self, request: Request) -> Response:
        """Redirect to the provider. The browser keeps the attempt, encrypted, until it comes back."""
        try:
            where, attempt = await self._provider.begin(local_path(request.query_params.get("next", "")))
        except CapsetError as error:
            return Response(self._form(request, error.message, ""), error.status, media_type=HTML)
        encrypted = await encrypt(self._keys, _ATTEMPT.purpose, attempt.text().encode())
        if len(encrypted) > MAX_COOKIE:  # no browser would keep it: return to the first page instead
            encrypted = await encrypt(self._keys, _ATTEMPT.purpose, replace(attempt, following="").text().encode())
        response = Response(status_code=303, headers={"location": where})
        response.raw_headers.append(self._cookie(encrypted, request.scope, _ATTEMPT))
        return response

    async def _come_back(self, request: Request) -> Response:
        """Exchange the code in the provider's redirect for a token, and sign in with it."""
        name = cookie_name(_ATTEMPT, cookie_path(request.scope), is_secure=self.is_secure(request.scope))
        decrypted = await decrypt(self._keys, _ATTEMPT.purpose, request.cookies.get(name, ""))
        try:
            if decrypted is None:
                raise Unauthenticated("This sign-in took too long, or began in another browser. Sign in again.")
            attempt = SignInAttempt.read(decrypted.decode())
            value = await self._begin(*await self._provider.finish(attempt, request.query_params))
        except CapsetError as error:
            response = Response(self._form(request, error.message, ""), error.status, media_type=HTML)
        else:
            response = self._onward(request, attempt.following)
            response.raw_headers.append(self._cookie(value, request.scope))
        response.raw_headers.append(self._cookie("", request.scope, _ATTEMPT))
        return response

    async def _begin(self, token: str, subject: str) -> str:
        try:
            return await self._sign_ins.begin(token, subject=subject)
        except Unauthenticated:
            raise Unauthenticated(
                "The provider's access token is not for this server, or for another subject than its ID token: the log "
                "says why (capset.tokens)."
            ) from None

    @property
    def _provider(self) -> OpenIdSignIn:
        if self._service.open_id is None:
            raise NotFound("this server has no OpenID provider: sign in with an API key")
        return self._service.open_id

    async def _logout(self, request: Request) -> Response:
        """End the sign-in, with every copy of its cookie. The form needs no token, but must come from this site."""
        info = request_context(request.scope)
        if is_foreign(info.headers, self._service.public_url):
            return Response(status_code=303, headers={"location": f"{root_of(request.scope)}/login"})
        await self._sign_ins.end(self.cookie(request.scope, info))
        return self.sign_out(request)

    def cookie(self, scope: Scope, info: RequestContext) -> str:
        """Return the value of a request's sign-in cookie, ``""`` if there is none."""
        name = cookie_name(self._sign_ins.kind, cookie_path(scope), is_secure=self.is_secure(scope))
        return cookie_of(info.header(b"cookie"), name)

    def sign_out(self, request: Request) -> Response:
        """Remove the sign-in cookie, and redirect to the sign-in."""
        response = Response(status_code=303, headers={"location": f"{root_of(request.scope)}/login"})
        response.raw_headers.append(self._cookie("", request.scope))
        return response

    def _cookie(self, value: str, scope: Scope, kind: SignInKind | None = None) -> tuple[bytes, bytes]:
        return set_cookie(kind or self._sign_ins.kind, value, cookie_path(scope), is_secure=self.is_secure(scope))

    def _onward(self, request: Request, following: str) -> Response:
        return Response(status_code=303, headers={"location": root_of(request.scope) + (following or "/")})

    def _form(self, request: Request, message: str, following: str) -> bytes:
        root = root_of(request.scope)
        values = {
            "said": message,
            "following": following,
            "provider": None if self._service.open_id is None else self._service.open_id.provider,
            "takes_tokens": self._service.callers.takes_tokens,
            "url": address(root),
            "asset": partial(asset_path, root),
        }
        return render("login.html", values)


def local_path(text: str) -> str:
    """Return ``text`` if it is a path of this server, else ``""``: a sign-in must not redirect elsewhere."""
    try:
        url = urlsplit(text)
    except ValueError:
        return ""
    is_local = not url.scheme and not url.netloc and text.startswith("/") and not text.startswith("//")
    return text if is_local and "\\" not in text and text.isprintable() and text.isascii() else ""
