"""Requests made of arguments: values in paths, queries, headers, cookies and bodies (spec 7, M8).

Everything that a value contains is percent-encoded where it has a meaning, so that no argument changes the path, adds
a parameter or ends a header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote, unquote

from capset.adapters.openapi.api import OpenApi
from capset.adapters.openapi.arguments import FORM, is_json
from capset.adapters.openapi.credentials import Filled, keys_of
from capset.adapters.openapi.uploads import FORM_DATA, FormPart, Upload, multipart
from capset.errors import ToolError
from capset.net.client import Method
from capset.net.media import media_type_of

_JOINTS: Final = {"form": ",", "simple": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_ACCEPT: Final = "application/json, text/*;q=0.9, */*;q=0.1"
_DOTS: Final = (".", "..")

Place = Mapping[str, Any]
"""Where and how an argument is sent, as ``arguments`` describes it; JSON."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to an API, ready to be sent."""

    method: Method
    url: str
    headers: Mapping[str, str]
    content: bytes | None = None


def request_of(
    api: OpenApi,
    shape: Mapping[str, Any],
    arguments: Mapping[str, Any],
    headers: Mapping[str, str],
    credentials: Filled,
) -> ApiRequest:
    """Return the request of a call: of an operation as it was approved, with arguments that fit its schema.

    ``headers`` are those of the host. Arguments that are null are left out. Raises ``ToolError``
    (``argument_refused``), naming the argument, for a value that its place cannot take.
    """
    path: dict[str, str] = {}
    query: list[str] = []
    sent: dict[str, str] = {"accept": _ACCEPT}
    cookies: list[str] = []
    content: bytes | None = None
    for name, value in arguments.items():
        place: Place = shape["arguments"][name]
        match place["in"]:
            case "path":
                path[place["name"]] = _segment(name, place, value, slashes=api.slashes)
            case "body":
                content, sent["content-type"] = _content(name, place, value)
            case _ if value is None:
                continue
            case "query":
                taken = [*_keys(shape, "query"), *_others(shape, name, "query")]
                query += _apart(name, _pairs(name, place, value), taken)
            case "cookie":
                taken = [*_keys(shape, "cookie"), *_others(shape, name, "cookie"), *_cookies(headers)]
                cookies += _apart(name, _pairs(name, place, value), taken)
            case _:
                sent[place["name"]] = _header(name, place, value)
    query += [f"{_quoted(name)}={_quoted(value)}" for name, value in credentials.query]
    cookies += [f"{name}={value}" for name, value in credentials.cookies]
    own = {**{name.lower(): value for name, value in headers.items()}, **credentials.headers}
    if cookies:
        own["cookie"] = "; ".join([own["cookie"], *cookies] if "cookie" in own else cookies)
    url = (api.url or shape["server"]) + _path(shape["path"], path)
    return ApiRequest(shape["method"], f"{url}?{'&'.join(query)}" if query else url, {**sent, **own}, content)


def _path(template: str, values: Mapping[str, str]) -> str:
    """Return the path with encoded values. Raises ``ToolError`` if that leaves a segment empty or makes it dots."""
    segments: list[str] = []
    for segment in template.split("/"):
        made = re.sub(r"\{([^{}]*)\}", lambda place: values[place[1]], segment)
        if made != segment and (not made or _unquoted(made).partition(";")[0] in _DOTS):
            name = re.findall(r"\{([^{}]*)\}", segment)[0]
            raise _refused(name, "the path would lead elsewhere")
        segments.append(quote(made, safe="%" + "!$&'()*+,;=:@~-._"))
    return "/".join(segments)


def _segment(name: str, place: Place, value: Any, *, slashes: bool) -> str:
    """Return a value as a part of one segment of a path."""
    if value is None or value in ("", [], {}):
        raise _refused(name, "a value was expected, which a path needs")
    texts: list[str] = []
    for pair in _texts(name, place, value):
        plain = _unquoted("=".join(pair))
        parts = re.split(r"[/\\]", plain)
        if len(parts) > 1 and not slashes:
            raise _refused(name, "a path takes no slash in it, nor one that is encoded")
        if len(parts) > 1 and any(one.partition(";")[0] in _DOTS for one in parts):
            raise _refused(name, "the path would lead elsewhere")
        texts.append("=".join(map(_quoted, pair)))
    return ",".join(texts)


def _texts(name: str, place: Place, value: Any) -> Iterator[Sequence[str]]:
    """Yield the texts of a value in the style ``simple``: one, its items, or its members, with their names."""
    if "content" in place:
        yield (_json(value),)
    elif isinstance(value, list):
        yield from ((_scalar(name, one),) for one in cast("list[Any]", value))
    elif isinstance(value, dict):
        for key, one in cast("dict[str, Any]", value).items():
            if place["explode"]:
                yield key, _scalar(name, one)
            else:
                yield from ((key,), (_scalar(name, one),))
    else:
        yield (_scalar(name, value),)


def _header(name: str, place: Place, value: Any) -> str:
    return ",".join("=".join(pair) for pair in _texts(name, place, value))


def _pairs(name: str, place: Place, value: Any) -> Iterator[str]:
    """Yield the ``name=value`` pairs of a query, a cookie or a form, percent-encoded."""
    key = _quoted(place["name"])
    if "content" in place:
        yield f"{key}={_quoted(_json(value))}"
        return
    style, explodes = place["style"], place["explode"]
    joint = _JOINTS.get(style)
    if isinstance(value, list) and joint is not None:
        items = [_quoted(_scalar(name, one)) for one in cast("list[Any]", value)]
        if explodes:
            yield from (f"{key}={one}" for one in items)
        elif items:
            yield f"{key}={joint.join(items)}"
    elif isinstance(value, dict) and style in ("form", "deepObject"):
        members = {
            one: _quoted(_scalar(name, inner))
            for one, inner in cast("dict[str, Any]", value).items()
            if inner is not None
        }
        if style == "deepObject":
            yield from (f"{key}{_quoted(f'[{one}]')}={inner}" for one, inner in members.items())
        elif explodes:
            yield from (f"{_quoted(one)}={inner}" for one, inner in members.items())
        elif members:
            yield f"{key}={','.join(f'{_quoted(one)},{inner}' for one, inner in members.items())}"
    elif isinstance(value, list | dict) or style == "deepObject":
        raise _refused(name, f"the style {style} cannot send such a value")
    else:
        yield f"{key}={_quoted(_scalar(name, value))}"


def _keys(shape: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield the names of a place that only credentials fill, those of alternatives that are not chosen among them."""
    return (name for where, name in keys_of(shape.get("security", ())) if where == place)


def _others(shape: Mapping[str, Any], name: str, place: str) -> Iterator[str]:
    """Yield the names of the other parameters of a place."""
    for other, one in shape["arguments"].items():
        if other != name and one["in"] == place:
            yield one["name"]


def _cookies(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the host's own cookies."""
    for header, text in headers.items():
        if header.lower() == "cookie":
            yield from (one.partition("=")[0].strip() for one in text.split(";"))


def _apart(name: str, pairs: Iterable[str], taken: Iterable[str]) -> Iterator[str]:
    """Yield pairs. Raises ``ToolError`` for a member whose name a credential or another parameter has."""
    names = {_quoted(one) for one in taken}
    for pair in pairs:
        if pair.partition("=")[0] in names:
            raise _refused(name, "it has a member with the name of a credential, or of another parameter")
        yield pair


def _content(name: str, place: Place, value: Any) -> tuple[bytes, str]:
    """Return a body and its ``Content-Type``."""
    declared: str = place["media"]
    media = media_type_of(declared)
    if is_json(media):
        return _json(value).encode(), declared
    if media == FORM:
        return "&".join(_form(name, place.get("encoding", {}), value)).encode(), media
    if media == FORM_DATA:
        return multipart(name, _parts(name, place.get("parts", {}), value))
    if isinstance(value, Upload):
        return value.data, declared
    return str(value).encode(), f"{media}; charset=utf-8"


def _parts(name: str, places: Mapping[str, Place], value: Any) -> Iterator[FormPart]:
    """Yield the parts of a body: files, texts, and JSON for what is neither."""
    if not isinstance(value, dict):
        raise _refused(name, "an object was expected, whose members are the parts of a body")
    for key, one in cast("dict[str, Any]", value).items():
        if one is None:
            continue
        media = places.get(key, {}).get("media")
        items: list[Any] = [one]
        if isinstance(one, list) and not (media is not None and is_json(media)):
            items = cast("list[Any]", one)
        for item in items:
            if isinstance(item, Upload):
                yield key, (item.name, item.data, media)
            elif media is not None or isinstance(item, list | dict):
                yield key, (None, _json(item).encode(), media or "application/json")
            else:
                yield key, (None, _scalar(name, item).encode(), None)


def _form(name: str, encodings: Mapping[str, Place], value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        raise _refused(name, "an object was expected, whose members are the fields of a form")
    for key, one in cast("dict[str, Any]", value).items():
        if one is None:
            continue
        if (encoding := encodings.get(key)) is not None:
            others = {*cast("dict[str, Any]", value)} - {key}
            yield from _apart(name, _pairs(name, {**encoding, "name": key}, one), others)
            continue
        items = cast("list[Any]", one) if isinstance(one, list) else [one]
        texts = [_json(item) if isinstance(item, list | dict) else _scalar(name, item) for item in items]
        yield from (f"{_quoted(key)}={_quoted(text)}" for text in texts)


def _scalar(name: str, value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 2**53 else json.dumps(value)
        case _:
            raise _refused(name, "texts, numbers and booleans were expected in it, and nothing deeper")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _unquoted(text: str) -> str:
    """Return a text as servers might read it that decode more than once."""
    while (plain := unquote(text)) != text:
        text = plain
    return text


def _refused(name: str, why: str) -> ToolError:
    return ToolError(f"The argument {name!r:.80} cannot be sent: {why}.", code="argument_refused", status=422)
