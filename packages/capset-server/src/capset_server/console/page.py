"""One request for a page: who asks, what REST answers them, and the page that is made of it."""

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
"""The cookie with what the page before has done, for the next page to say."""
_TOLD_SECONDS: Final = 20
_MAX_TOLD: Final = 500
HTML: Final = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """One entry of the menu: its title, its path, and a scope that its pages need.

    ``more`` are the beginnings of other paths that belong to it.
    """

    title: str
    path: str
    scope: Scope
    icon: str
    more: tuple[str, ...] = ()

    def has(self, path: str) -> bool:
        """Return whether a page is one of this entry's, by its path below the root of the server."""
        return path.strip("/").partition("/")[0] in (self.path, *self.more)


class PageRequest:
    """A request for a page of the console, by somebody who has signed in."""

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
        """Return an answer that removes the cookie of the sign-in, and leads to the next one."""
        self.is_signed_in = is_signed_in
        """Return whether the sign-in with which the page was requested is still valid, for long-running answers."""
        self._root, self._cookie_path = root_of(request.scope), cookie_path(request.scope)
        self.url = address(self._root)

    @property
    def params(self) -> Mapping[str, str]:
        """The parts of the path that its template names."""
        return self.request.path_params

    @property
    def query(self) -> Mapping[str, str]:
        """The query, without what is empty; of several values of one name it has the last."""
        return {name: value for name, value in self.request.query_params.items() if value}

    @property
    def is_fragment(self) -> bool:
        """Whether htmx asks, which takes a part of the page."""
        return self.request.headers.get("hx-request") == "true"

    def render(self, template: str, *, http_status: int = 200, **values: Any) -> Response:  # what the template shows
        """Return a page, or a part of one, made of a template."""
        response = Response(self.fragment(template, **values), http_status, media_type=HTML)
        if TOLD in self.request.cookies and not self.is_fragment:
            response.delete_cookie(TOLD, path=self._cookie_path, httponly=True, samesite="lax")
        return response

    def fragment(self, template: str, **values: Any) -> bytes:  # what the template shows
        """Return what is made of a template, for an answer of another kind, such as a stream."""
        return render(template, {**self._common(), **values})

    def redirect(self, *segments: str, told: str = "", **query: object) -> Response:
        """Return an answer that leads to another page, which says what was done."""
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
            "who": f"{principal.kind}:{principal.id}",
            "org": principal.org,
            "menu": [place for place in self._menu if self.caller.has(place.scope)],
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
    """A path of the console, in Starlette's syntax, and the function that answers it."""

    method: str
    path: str
    handler: Handler


def root_of(scope: HttpScope) -> str:
    """Return what comes before the paths of the server, as browsers see them."""
    return scope.get("root_path", "")


def cookie_path(scope: HttpScope) -> str:
    """Return the path below which browsers send the console's cookies: not to other programs of the same host."""
    return root_of(scope) or "/"
