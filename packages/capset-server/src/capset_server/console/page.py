"""A request for a page: its caller, the REST API for the caller, and the response from a template."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope as HttpScope

from capset_server.auth.callers import Caller
from capset_server.auth.keys import Scope
from capset_server.console.api import Api
from capset_server.console.assets import asset_path
from capset_server.console.forms import Form
from capset_server.console.markup import address, render

if TYPE_CHECKING:
    from capset_server.service import Service

TOLD: Final = "capset_told"
"""The cookie with a message on what was done, for the next page to show."""
_TOLD_SECONDS: Final = 20
_MAX_TOLD: Final = 500
HTML: Final = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """An entry of the menu: its title, its path, and the scope that its pages need, if any.

    ``more`` are the first segments of other paths that belong to it.
    """

    title: str
    path: str
    scope: Scope | None
    icon: str
    more: tuple[str, ...] = ()

    def has(self, path: str) -> bool:
        """Return whether a page belongs to this entry, by its path below the root of the server."""
        return path.strip("/").partition("/")[0] in (self.path, *self.more)


class PageRequest:
    """A request of a signed-in caller for a page of the console."""

    def __init__(
        self,
        request: Request,
        service: Service,
        api: Api,
        caller: Caller,
        form: Form,
        token: str,
        menu: tuple[MenuEntry, ...],
        sign_out: Callable[[], Response],
        is_signed_in: Callable[[], Awaitable[bool]],
    ) -> None:
        self.request = request
        self.service = service
        self.api = api
        self.caller = caller
        self.form = form
        self._token = token
        self._menu = menu
        self.sign_out = sign_out
        """Remove the sign-in cookie, and redirect to the sign-in."""
        self.is_signed_in = is_signed_in
        """Return whether the sign-in of the request is still valid, for long-running responses."""
        self._root, self._cookie_path = root_of(request.scope), cookie_path(request.scope)
        self.url = address(self._root)

    @property
    def params(self) -> Mapping[str, str]:
        """The parameters in the path."""
        return self.request.path_params

    @property
    def query(self) -> Mapping[str, str]:
        """The query parameters that are not empty; of repeated ones, the last."""
        return {name: value for name, value in self.request.query_params.items() if value}

    @property
    def is_fragment(self) -> bool:
        """Whether htmx sent the request, and expects a part of the page."""
        return self.request.headers.get("hx-request") == "true"

    def render(self, template: str, *, http_status: int = 200, **values: Any) -> Response:  # what the template shows
        """Render a page, or a part of one, from a template."""
        response = Response(self.fragment(template, **values), http_status, media_type=HTML)
        if TOLD in self.request.cookies and not self.is_fragment:
            response.delete_cookie(TOLD, path=self._cookie_path, httponly=True, samesite="lax")
        return response

    def fragment(self, template: str, **values: Any) -> bytes:  # what the template shows
        """Render a template for another kind of response, such as a stream."""
        return render(template, {**self._common(), **values})

    def redirect(self, *segments: str, told: str = "", **query: object) -> Response:
        """Redirect to another page, which shows the message ``told``."""
        where = str(self.url(*segments, **query)).replace("&amp;", "&")
        if self.is_fragment:
            response = Response(status_code=200, headers={"hx-redirect": where})
        else:
            response = Response(status_code=303, headers={"location": where})
        if told:
            response.set_cookie(
                TOLD,
                quote(told[:_MAX_TOLD]),
                max_age=_TOLD_SECONDS,
                path=self._cookie_path,
                httponly=True,
                samesite="lax",
            )
        return response

    def _common(self) -> dict[str, Any]:
        principal = self.caller.principal
        path = self.request.url.path.removeprefix(self._root)
        return {
            "page": self,
            "caller": self.caller,
            "who": principal.qualified_id,
            "org": principal.org,
            "menu": [place for place in self._menu if place.scope is None or self.caller.has(place.scope)],
            "here": path,
            "entry": next((place for place in self._menu if place.has(path)), None),
            "url": self.url,
            "token": self._token,
            "now": self.service.kernel.now(),
            "asset": partial(asset_path, self._root),
            "told": unquote(self.request.cookies.get(TOLD, "")),
            "is_fragment": self.is_fragment,
        }


Handler = Callable[[PageRequest], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A path of the console, in Starlette's syntax, and its handler."""

    method: str
    path: str
    handler: Handler


def root_of(scope: HttpScope) -> str:
    """Return the prefix of the server's paths, as browsers see them."""
    return scope.get("root_path", "")


def cookie_path(scope: HttpScope) -> str:
    """Return the ``Path`` of the console's cookies, which excludes other programs on the same host."""
    return root_of(scope) or "/"
