"""Requests as an OpenAPI document wants them: a second implementation, which knows nothing of capset's.

It is written from the table of styles in OpenAPI 3.0.4 and 3.1.1, whose expansions are those of RFC 6570, and from
RFC 3986 for what is the same in a URL. Where OpenAPI leaves nested values open, it has the form that servers read:
``filter[name][]=a``, whatever number stands in the brackets of a list; a field of a form may be JSON as well.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import unquote

from lab.corpus.nodes import Node, Operation, elements, is_list, is_object, members, resolve

FORM: Final = "application/x-www-form-urlencoded"
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_KEPT: Final = _UNRESERVED | frozenset(b"%!$&'()*+,;=:@/?")
"""What a URL may have as it is, beside percent-encoded octets."""
_LIST_INDEX: Final = re.compile(r"%5B\d+%5D")
_JOINTS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}

Place = tuple[str, str]
"""Where a parameter is, and its name: ``("query", "limit")``."""
Nested = Literal["json", "brackets"]
"""How objects and lists of them stand in a form."""


class Unsendable(Exception):
    """A value for which the document has no form."""


@dataclass(frozen=True, slots=True)
class Json:
    """A text that is some JSON of this value."""

    value: Any  # JSON


Text = str | bytes | Json
Pair = tuple[str, Text]


class Received(NamedTuple):
    """A request as a server got it."""

    method: str
    target: str
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes


@dataclass
class Expected:
    """A request, but for its body. Texts in a path, a query and cookies are percent-encoded."""

    method: str
    path: str
    query: list[Pair] = field(default_factory=list[Pair])
    headers: dict[str, Text | None] = field(default_factory=dict[str, Text | None])
    """``None`` for a header that must not be there."""
    cookies: list[Pair] = field(default_factory=list[Pair])


def differences(
    document: Node,
    operation: Operation,
    base: str,
    values: Mapping[Place, Any],
    body: Any,  # JSON, with bytes for files; None for none
    credentials: Mapping[str, str],
    received: Received,
) -> list[str]:
    """Return what differs between a request and that of these values, for the alternative of security that is nearest.

    ``base`` is the path of the server; ``credentials`` are by the names of security schemes. Raises ``Unsendable``.
    """
    undeclared = sorted(values.keys() - _parameters(document, operation).keys())
    anyway = [f"it has no parameter {name!r} in its {where}" for where, name in undeclared]
    anyway += _body_differences(document, operation, body, received)
    alternatives: list[list[str]] = []
    for schemes in _alternatives(document, operation):
        expected = _expected(document, operation, base, values)
        try:
            _authorize(document, schemes, credentials, expected)
        except KeyError:  # a scheme for which there is no credential
            continue
        alternatives.append([*_head_differences(expected, received), *anyway])
    return min(alternatives, key=len) if alternatives else ["no alternative of its security can be met"]


def _expected(document: Node, operation: Operation, base: str, values: Mapping[Place, Any]) -> Expected:
    parameters = _parameters(document, operation)
    # ``{?name}`` of RFC 6570 and ``name={name}`` stand for parameters of the query; what follows ``#`` is not sent.
    template, _, query = re.sub(r"\{[?&][^{}]*\}", "", operation.path).partition("#")[0].partition("?")
    fixed = "&".join(pair for pair in query.split("&") if pair and not _is_placeholder(pair, parameters))
    expected = Expected(operation.method, base + template)
    for (where, name), parameter in parameters.items():
        if (where, name) not in values:
            continue
        value = values[where, name]
        if where == "path":
            text = path_text(parameter, value)
            expected.path = expected.path.replace(f"{{{name}}}", text)
            fixed = fixed.replace(f"{{{name}}}", text)
        elif where == "header":
            expected.headers[name] = _header_text(parameter, value)
        elif where == "query":
            expected.query += query_pairs(parameter, value)
        elif where == "cookie":
            expected.cookies += query_pairs(parameter, value)
    expected.query += [_split(pair) for pair in fixed.split("&") if pair]
    return expected


def _is_placeholder(pair: str, parameters: Mapping[Place, Node]) -> bool:
    name, value = _split(pair)
    return value == f"{{{name}}}" and ("query", unquote(name)) in parameters


def _parameters(document: Node, operation: Operation) -> dict[Place, Node]:
    """Return the parameters of an operation, and those of its path that it does not describe itself."""
    parameters: dict[Place, Node] = {}
    for owner in (operation.item, operation.node):
        for node in elements(owner.get("parameters")):
            parameter = resolve(document, node)
            where, name = str(parameter.get("in")), str(parameter.get("name"))
            parameters[where, name.lower() if where == "header" else name] = parameter
    return parameters


def path_text(parameter: Node, value: Any) -> str:
    """Return a value in a path, in the style ``simple``, ``label`` or ``matrix``."""
    if "content" in parameter:
        raise Unsendable("JSON in a path")
    name, style = encode(str(parameter["name"])), parameter.get("style", "simple")
    explodes = parameter.get("explode") is True
    texts = _texts(value)
    if style == "simple":
        return ",".join(_joined(texts, explodes=explodes))
    if style == "label":
        joint = "." if explodes else ","
        return f".{joint.join(_joined(texts, explodes=explodes))}"
    if style != "matrix":
        raise Unsendable(f"the style {style} in a path")
    if explodes and isinstance(texts, dict):
        return "".join(f";{key}={text}" for key, text in texts.items())
    if explodes and isinstance(texts, list):
        return "".join(f";{name}={text}" for text in texts)
    text = ",".join(_joined(texts, explodes=False))
    return f";{name}={text}" if text else f";{name}"


def query_pairs(parameter: Node, value: Any) -> list[Pair]:
    """Return the pairs of a value in a query, a cookie or a form."""
    name = str(parameter["name"])
    if "content" in parameter:
        return [(encode(name), Json(value))]
    pairs = _styled_pairs(name, parameter, value)
    if parameter.get("allowReserved") is True:  # encoded or not, the server reads the same
        return [(key, unquote(text).encode()) for key, text in pairs]
    return list(pairs)


def _styled_pairs(name: str, parameter: Node, value: Any) -> Iterable[tuple[str, str]]:
    style = parameter.get("style", "form")
    if style == "deepObject":
        if not (is_object(value) or is_list(value)):
            raise Unsendable("a deepObject that is no object")
        return _bracketed(name, value)
    if style not in _JOINTS:
        raise Unsendable(f"the style {style} in a query")
    texts = _texts(value)
    if isinstance(texts, str):
        return [(encode(name), texts)]
    if parameter.get("explode", style == "form") is True:
        return texts.items() if isinstance(texts, dict) else [(encode(name), text) for text in texts]
    flat = _joined(texts, explodes=False)
    return [(encode(name), _JOINTS[style].join(flat))] if flat else []


def _header_text(parameter: Node, value: Any) -> Text:
    """Return a value of a header, which is not percent-encoded."""
    if "content" in parameter:
        return Json(value)
    texts = _texts(value, encoded=False)
    return ",".join(_joined(texts, explodes=parameter.get("explode") is True))


def _texts(value: Any, *, encoded: bool = True) -> str | list[str] | dict[str, str]:
    """Return the text of a value that is no deeper than a list or an object; members that are null are left out."""
    write = encode if encoded else str
    if is_list(value):
        return [write(text_of(item)) for item in elements(value) if item is not None]
    if is_object(value):
        return {write(key): write(text_of(item)) for key, item in members(value).items() if item is not None}
    return write(text_of(value))


def _joined(texts: str | list[str] | dict[str, str], *, explodes: bool) -> list[str]:
    """Return the parts that stand between the joints of a style."""
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, list):
        return texts
    if explodes:
        return [f"{key}={text}" for key, text in texts.items()]
    return [part for pair in texts.items() for part in pair]


def _bracketed(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a nested value: ``name[key][]``."""
    if is_object(value):
        for key, item in members(value).items():
            yield from _bracketed(f"{name}[{key}]", item)
    elif is_list(value):
        for item in elements(value):
            yield from _bracketed(f"{name}[]", item)
    elif value is not None:
        yield encode(name), encode(text_of(value))


def text_of(value: Any) -> str:
    """Return the text of a scalar. Raises ``Unsendable`` for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise Unsendable("a nested value")


def encode(text: str) -> str:
    """Percent-encode all but unreserved characters."""
    return "".join(chr(octet) if octet in _UNRESERVED else f"%{octet:02X}" for octet in text.encode())


def normal(text: str) -> str:
    """Return a part of a URL in the form of RFC 3986, 6.2.2: equivalent parts are the same text."""
    octets = re.sub(rb"%([0-9A-Fa-f]{2})", _normal_octet, text.encode())
    return "".join(chr(octet) if octet in _KEPT else f"%{octet:02X}" for octet in octets)


def _normal_octet(encoded: re.Match[bytes]) -> bytes:
    octet = int(encoded[1], 16)
    return bytes([octet]) if octet in _UNRESERVED else b"%%%02X" % octet


def _alternatives(document: Node, operation: Operation) -> list[list[str]]:
    """Return the names of the schemes that are needed together, for each alternative."""
    security = operation.node.get("security", document.get("security"))
    return [list(members(needed)) for needed in elements(security)] or [[]]


def _authorize(document: Node, schemes: Iterable[str], credentials: Mapping[str, str], expected: Expected) -> None:
    """Add credentials to a request. Raises ``KeyError`` for a scheme that has none, or cannot be filled."""
    declared = members(members(document.get("components")).get("securitySchemes"))
    expected.headers.setdefault("authorization", None)
    for name in schemes:
        scheme, credential = resolve(document, declared[name]), credentials[name]
        match (scheme.get("type"), scheme.get("in"), str(scheme.get("scheme")).lower()):
            case ("apiKey", "header", _):
                expected.headers[str(scheme["name"]).lower()] = credential
            case ("apiKey", "query", _):
                expected.query.append((encode(str(scheme["name"])), encode(credential)))
            case ("apiKey", "cookie", _):
                expected.cookies.append((str(scheme["name"]), credential))
            case ("http", _, "basic"):
                expected.headers["authorization"] = f"Basic {base64.b64encode(credential.encode()).decode()}"
            case ("http", _, "bearer") | ("oauth2" | "openIdConnect", _, _):
                expected.headers["authorization"] = f"Bearer {credential}"
            case _:
                raise KeyError(name)


def _head_differences(expected: Expected, received: Received) -> Iterator[str]:
    path, _, query = received.target.partition("?")
    if received.method != expected.method:
        yield f"its method is {received.method}, not {expected.method}"
    if normal(path) != normal(expected.path):
        yield f"its path is {path}, not {expected.path}"
    pairs = [_split(pair) for pair in query.split("&") if pair]
    yield from _pair_differences("query", pairs, expected.query)
    sent_cookies = [_split(pair) for pair in received.headers.get("cookie", "").split("; ") if pair]
    yield from _pair_differences("cookies", sent_cookies, expected.cookies)
    for name, text in expected.headers.items():
        sent = received.headers.get(name)
        if not (text is None if sent is None else text is not None and _is_text(sent, text)):
            yield f"its header {name} is {sent!r}, not {text!r}"


def _split(pair: str) -> tuple[str, str]:
    name, _, value = pair.partition("=")
    return name, value


def _pair_differences(part: str, sent: Sequence[tuple[str, str]], expected: Sequence[Pair]) -> Iterator[str]:
    """Yield how pairs differ; only those of one name have an order."""
    ours = sorted(((_name(name), value) for name, value in expected), key=lambda pair: pair[0])
    theirs = sorted(((_name(name), value) for name, value in sent), key=lambda pair: pair[0])
    names = [name for name, _ in theirs] == [name for name, _ in ours]
    if not names or not all(
        _is_encoded(text, expected_value) for (_, text), (_, expected_value) in zip(theirs, ours, strict=True)
    ):
        yield f"its {part} has {theirs}, not {ours}"


def _name(name: str) -> str:
    return _LIST_INDEX.sub("%5B%5D", normal(name))


def _is_encoded(sent: str, expected: Text) -> bool:
    """Whether a percent-encoded text is the expected one."""
    if isinstance(expected, str):
        return normal(sent) == normal(expected)
    return _is_text(unquote(sent).encode(), expected)


def _is_text(sent: str | bytes, expected: Text) -> bool:
    if isinstance(expected, Json):
        try:
            return json.loads(sent) == expected.value
        except ValueError:
            return False
    return sent == expected


def _body_differences(document: Node, operation: Operation, body: Any, received: Received) -> list[str]:
    """Return how a body differs from the nearest form of a value. Raises ``Unsendable``."""
    if body is None:
        return [f"it has a body of {len(received.body)} bytes"] if received.body else []
    sent_type = received.headers.get("content-type", "")
    media = _essence(sent_type)
    content = members(resolve(document, operation.node.get("requestBody")).get("content"))
    declared = next((key for key in content if _covers(_essence(key), media)), None)
    if declared is None:
        return [f"its body is of {media!r}, which is none of {', '.join(content)}"]
    described = members(content[declared])
    if re.fullmatch(r"application/json|[^/]+/[^/]+\+json", media):
        return [] if _is_text(received.body, Json(body)) else [f"its body is {received.body[:500]!r}, not {body!r}"]
    if media == FORM:
        nested: tuple[Nested, ...] = ("json", "brackets")
        return min((_form_differences(document, described, body, received.body, kind) for kind in nested), key=len)
    if media == "multipart/form-data":
        return list(_part_differences(sent_type, received.body, body))
    raw = body if isinstance(body, bytes) else str(body).encode()
    return [] if received.body == raw else [f"its body is {received.body[:500]!r}, not {raw!r}"]


def _essence(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _covers(declared: str, media: str) -> bool:
    if declared in (media, "*/*"):
        return True
    kind, _, subtype = declared.partition("/")
    return subtype.startswith("*") and media.startswith(f"{kind}/") and media.endswith(subtype[1:])


def _form_differences(document: Node, described: Node, body: Any, sent: bytes, nested: Nested) -> list[str]:
    """Return how a form differs; objects without an encoding are JSON, or have brackets."""
    encodings = members(described.get("encoding"))
    expected: list[Pair] = []
    for name, value in members(body).items():
        encoding = resolve(document, encodings.get(name))
        if value is None:
            continue
        if not {"style", "explode"}.isdisjoint(encoding):
            expected += query_pairs({**encoding, "name": name}, value)
        elif _is_nested(value) and nested == "brackets":
            expected += _bracketed(name, value)
        else:
            items = elements(value) if is_list(value) else (value,)
            expected += [(encode(name), _form_text(item)) for item in items]
    pairs = [_split(pair) for pair in sent.decode(errors="replace").replace("+", "%20").split("&") if pair]
    return list(_pair_differences("form", pairs, expected))


def _is_nested(value: object) -> bool:
    return is_object(value) or any(is_object(item) or is_list(item) for item in elements(value))


def _form_text(value: Any) -> Text:
    return Json(value) if is_object(value) or is_list(value) else encode(text_of(value))


def _part_differences(media_type: str, sent: bytes, body: Any) -> Iterator[str]:
    """Yield how the parts of a multipart body differ from the members of a value."""
    expected: list[Pair] = []
    for name, value in members(body).items():
        items = elements(value) if is_list(value) else (value,)
        expected += [(name, _part_text(item)) for item in items if item is not None]
    message = BytesParser().parsebytes(b"Content-Type: " + media_type.encode() + b"\r\n\r\n" + sent)
    parts = cast("list[Message]", message.get_payload()) if message.is_multipart() else []
    received = [(str(part.get_param("name", header="content-disposition")), _payload(part)) for part in parts]
    ours, theirs = sorted(expected, key=lambda part: part[0]), sorted(received, key=lambda part: part[0])
    names = [name for name, _ in theirs] == [name for name, _ in ours]
    if not names or not all(
        _is_text(text, expected_text) for (_, text), (_, expected_text) in zip(theirs, ours, strict=True)
    ):
        yield f"its parts are {theirs}, not {ours}"


def _part_text(value: Any) -> Text:
    if isinstance(value, bytes):
        return value
    return Json(value) if is_object(value) or is_list(value) else text_of(value).encode()


def _payload(part: Message) -> bytes:
    return cast("bytes", part.get_payload(decode=True))
