"""Requests built from arguments: values in paths, queries, headers, cookies and bodies (spec 7, M8, M106).

Characters of a value that would have a meaning in their place are percent-encoded, so that no argument changes the
path, adds a parameter or ends a header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote, unquote

from capset.errors import ToolError
from capset.net.client import Method
from capset.net.media import media_type_of
from capset_connect.openapi.api import OpenApi
from capset_connect.openapi.bodies import FORM
from capset_connect.openapi.credentials import Filled, keys_of
from capset_connect.openapi.parameters import is_json
from capset_connect.openapi.paths import names_in, split_path
from capset_connect.openapi.uploads import FORM_DATA, FormPart, Upload, multipart

_JOINTS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_ACCEPT: Final = "application/json, text/*;q=0.9, */*;q=0.1"
_DOTS: Final = (".", "..")
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_SLASH: Final = re.compile(r"/(?![^{}]*\})")
"""A slash between segments, but not in the name of a placeholder."""

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
    """Return the request for a call of an approved operation, with arguments that match its schema.

    ``headers`` are those of the host. Arguments that are null are left out. Raises ``ToolError``
    (``argument_refused``), naming the argument, for a value that cannot be sent in its place.
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
    query += [_pair(*pair) for pair in credentials.query]
    if (fixed := shape.get("query")) is not None:
        query.insert(0, _filled(fixed, path))
    cookies += [f"{name}={value}" for name, value in credentials.cookies]
    final_headers = {**{name.lower(): value for name, value in headers.items()}, **credentials.headers}
    if cookies:
        final_headers["cookie"] = "; ".join(
            [final_headers["cookie"], *cookies] if "cookie" in final_headers else cookies
        )
    url = (api.url or shape["server"]) + _path(split_path(shape["path"])[0], path)
    return ApiRequest(shape["method"], f"{url}?{'&'.join(query)}" if query else url, {**sent, **final_headers}, content)


def _path(template: str, values: Mapping[str, str]) -> str:
    """Return the path with encoded values. Raises ``ToolError`` if a segment becomes empty, ``.`` or ``..``."""
    segments: list[str] = []
    for segment in _SLASH.split(template):
        filled, place = _filled(segment, values), _PLACEHOLDER.search(segment)
        if place is not None and (not filled or _unquoted(filled).partition(";")[0] in _DOTS):
            raise _refused(place[1], "the path would lead elsewhere")
        segments.append(filled)
    return "/".join(segments)


def _filled(template: str, values: Mapping[str, str]) -> str:
    """Return a path segment or a query with encoded values in its placeholders."""
    filled = _PLACEHOLDER.sub(lambda place: values[place[1]], template)
    return quote(filled, safe="%!$&'()*+,;=:@~-._/?")


def _segment(name: str, place: Place, value: Any, *, slashes: bool) -> str:
    """Return a value as a part of one path segment."""
    if value is None or value in ("", [], {}):
        raise _refused(name, "a path needs a value that is not empty")
    texts: list[str] = []
    for pair in _texts(name, place, value):
        plain = _unquoted("=".join(pair))
        parts = re.split(r"[/\\]", plain)
        if len(parts) > 1 and not slashes:
            raise _refused(name, "in a path, it may not contain a slash, not even an encoded one")
        if len(parts) > 1 and any(part.partition(";")[0] in _DOTS for part in parts):
            raise _refused(name, "the path would lead elsewhere")
        texts.append("=".join(map(_quoted, pair)))
    style, explodes = place.get("style"), place.get("explode") is True
    if style == "label":
        return f".{('.' if explodes else ',').join(texts)}"
    if style != "matrix":
        return ",".join(texts)
    if explodes and isinstance(value, dict):
        return "".join(f";{text}" for text in texts)
    key = _quoted(place["name"])
    return "".join(f";{key}={text}" for text in (texts if explodes else [",".join(texts)]))


def _texts(name: str, place: Place, value: Any) -> Iterator[Sequence[str]]:
    """Yield the texts of a value: of a scalar, each item, or each member and its name. Null members are left out."""
    if "content" in place:
        yield (_json(value),)
    elif isinstance(value, list):
        yield from ((_scalar(name, element),) for element in cast("list[Any]", value))
    elif isinstance(value, dict):
        for key, member in cast("dict[str, Any]", value).items():
            if member is None:
                continue
            if place["explode"]:
                yield key, _scalar(name, member)
            else:
                yield from ((key,), (_scalar(name, member),))
    else:
        yield (_scalar(name, value),)


def _header(name: str, place: Place, value: Any) -> str:
    return ",".join("=".join(pair) for pair in _texts(name, place, value))


def _pairs(name: str, place: Place, value: Any) -> Iterator[str]:
    """Yield the ``name=value`` pairs of a query, a cookie or a form, percent-encoded."""
    key: str = place["name"]
    if "content" in place:
        yield _pair(key, _json(value))
    elif place["style"] == "deepObject":
        yield from _deep(name, key, value)
    elif not isinstance(value, list | dict):
        yield _pair(key, _scalar(name, value))
    elif not place["explode"]:
        texts = [_quoted(text) for pair in _texts(name, place, value) for text in pair]
        if texts:
            yield f"{_quoted(key)}={_JOINTS[place['style']].join(texts)}"
    elif isinstance(value, list):
        yield from (_pair(key, _scalar(name, item)) for item in cast("list[Any]", value))
    elif place["style"] == "form":
        for member, inner in cast("dict[str, Any]", value).items():
            items = cast("list[Any]", inner) if isinstance(inner, list) else [inner]
            yield from (_pair(member, _scalar(name, item)) for item in items if inner is not None)
    else:
        raise _refused(name, f"the style {place['style']} cannot send such a value")


def _deep(name: str, key: str, value: Any) -> Iterator[str]:
    """Yield the pairs of a value in the style ``deepObject``: ``a[b][c]=…``, ``a[]=…`` for items, ``a[0][b]=…``.

    The specification allows only objects of scalars; the other forms follow servers that accept more.
    """
    if isinstance(value, dict):
        for member, inner in cast("dict[str, Any]", value).items():
            if inner is not None:
                yield from _deep(name, f"{key}[{member}]", inner)
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        is_flat = not any(isinstance(item, list | dict) for item in items)
        for number, item in enumerate(items):
            yield from _deep(name, f"{key}[]" if is_flat else f"{key}[{number}]", item)
    else:
        yield _pair(key, _scalar(name, value))


def _pair(name: str, text: str) -> str:
    return f"{_quoted(name)}={_quoted(text)}"


def _keys(shape: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield the names in a place that only credentials may fill, including those of alternatives not chosen."""
    return (name for where, name in keys_of(shape.get("security", ())) if where == place)


def _others(shape: Mapping[str, Any], name: str, place: str) -> Iterator[str]:
    """Yield the names of the other parameters in a place, and those in the query that the path fixes."""
    if place == "query":
        yield from names_in(shape.get("query", ""))
    for other, other_place in shape["arguments"].items():
        if other != name and other_place["in"] == place:
            yield other_place["name"]


def _cookies(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the cookies in the host's headers."""
    for header, text in headers.items():
        if header.lower() == "cookie":
            yield from (part.partition("=")[0].strip() for part in text.split(";"))


def _apart(name: str, pairs: Iterable[str], taken: Iterable[str]) -> Iterator[str]:
    """Yield the pairs. Raises ``ToolError`` for one with the name of a credential or of another parameter."""
    names = {_quoted(key) for key in taken}
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
    """Yield the parts of a body: files, texts, and JSON for other values."""
    if not isinstance(value, dict):
        raise _refused(name, "an object was expected, whose members are the parts of a body")
    for key, member in cast("dict[str, Any]", value).items():
        if member is None:
            continue
        media = places.get(key, {}).get("media")
        items: list[Any] = [member]
        if isinstance(member, list) and not (media is not None and is_json(media)):
            items = cast("list[Any]", member)
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
    for key, member in cast("dict[str, Any]", value).items():
        if member is None:
            continue
        if (encoding := encodings.get(key)) is not None:
            others = {*cast("dict[str, Any]", value)} - {key}
            yield from _apart(name, _pairs(name, {**encoding, "name": key}, member), others)
            continue
        items = cast("list[Any]", member) if isinstance(member, list) else [member]
        texts = [_json(item) if isinstance(item, list | dict) else _scalar(name, item) for item in items]
        yield from (_pair(key, text) for text in texts)


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
            raise _refused(name, "only texts, numbers and booleans were expected in it")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _unquoted(text: str) -> str:
    """Return a text as read by a server that decodes repeatedly."""
    while (plain := unquote(text)) != text:
        text = plain
    return text


def _refused(name: str, why: str) -> ToolError:
    return ToolError(f"The argument {name!r:.80} cannot be sent: {why}.", code="argument_refused", status=422)
