"""Requests made of arguments: styles, bodies, and paths that no value changes (spec 7, M8)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.errors import ToolError
from capset.net.urls import parse_url
from capset_connect.openapi.api import OpenApi
from capset_connect.openapi.credentials import Filled
from capset_connect.openapi.requests import ApiRequest, request_of

API = OpenApi(name="a", document={}, url="https://a.example/v1/")
LOOSE = OpenApi(name="a", document={}, url="https://a.example/v1/", slashes=True)


def made(places: Mapping[str, Any], values: Mapping[str, Any], path: str = "/x", *, api: OpenApi = API) -> ApiRequest:
    shape = {"method": "POST", "path": path, "arguments": places}
    return request_of(api, shape, values, {}, Filled())


def query(value: Any, style: str = "form", *, explode: bool = True) -> str:
    place = {"in": "query", "name": "q", "style": style, "explode": explode}
    return urlsplit(made({"q": place}, {"q": value}).url).query


@pytest.mark.spec("M8")
@pytest.mark.parametrize(
    ("value", "options", "sent"),
    [
        ("a b&c=ä", {}, "q=a%20b%26c%3D%C3%A4"),
        (True, {}, "q=true"),
        (3.0, {}, "q=3"),
        (1e300, {}, "q=1e%2B300"),
        (0, {}, "q=0"),
        ("", {}, "q="),
        (None, {}, ""),
        ([], {}, ""),
        (["a", 1], {}, "q=a&q=1"),
        (["a,b", "c"], {"explode": False}, "q=a%2Cb,c"),
        (["a", "b"], {"style": "spaceDelimited", "explode": False}, "q=a%20b"),
        (["a", "b"], {"style": "pipeDelimited", "explode": False}, "q=a%7Cb"),
        ({"r": 1, "g&": "x"}, {}, "r=1&g%26=x"),
        ({"r": 1, "g": 2}, {"explode": False}, "q=r,1,g,2"),
        ({"r": 1, "g": 2}, {"style": "pipeDelimited", "explode": False}, "q=r%7C1%7Cg%7C2"),
        ({"sort": ["a", "b"], "page": 1, "no": []}, {}, "sort=a&sort=b&page=1"),
        ({"gte": 1, "lt": "z", "no": None}, {"style": "deepObject"}, "q%5Bgte%5D=1&q%5Blt%5D=z"),
        (1, {"style": "deepObject"}, "q=1"),
        ({"a": {"b": 1}, "c": [True]}, {"style": "deepObject"}, "q%5Ba%5D%5Bb%5D=1&q%5Bc%5D%5B%5D=true"),
        (["a", "b"], {"style": "deepObject"}, "q%5B%5D=a&q%5B%5D=b"),
        ([{"b": 1}, {"b": 2}], {"style": "deepObject"}, "q%5B0%5D%5Bb%5D=1&q%5B1%5D%5Bb%5D=2"),
    ],
)
def test_styles_of_queries(value: Any, options: dict[str, Any], sent: str) -> None:
    assert query(value, **options) == sent


@pytest.mark.spec("M8")
@pytest.mark.parametrize(
    ("value", "options"),
    [
        ([[1]], {}),
        ({"a": [[1]]}, {}),
        ({"a": {"b": 1}}, {}),
        ({"a": [1]}, {"explode": False}),
        ({"a": 1}, {"style": "pipeDelimited"}),
    ],
)
def test_what_a_style_cannot_send_is_refused(value: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="The argument 'q' cannot be sent"):
        query(value, **options)


@pytest.mark.spec("M8")
def test_styles_of_paths_headers_and_cookies() -> None:
    simple = {"style": "simple", "explode": False}
    places = {
        "ids": {"in": "path", "name": "ids", **simple},
        "point": {"in": "path", "name": "point", "style": "simple", "explode": True},
        "x-tags": {"in": "header", "name": "x-tags", **simple},
        "sid": {"in": "cookie", "name": "sid", "style": "form", "explode": True},
        "filter": {"in": "query", "name": "filter", "content": "application/json"},
    }
    values = {"ids": [1, "b,c"], "point": {"x": 1}, "x-tags": ["a", "b"], "sid": "a;b", "filter": {"a": ["b"]}}
    request = made(places, values, "/v/{ids}/at/{point}.json")
    assert request.url == "https://a.example/v1/v/1,b%2Cc/at/x=1.json?filter=%7B%22a%22%3A%5B%22b%22%5D%7D"
    assert request.headers["x-tags"] == "a,b"
    assert request.headers["cookie"] == "sid=a%3Bb"


@pytest.mark.spec("M106")
@pytest.mark.parametrize(
    ("style", "explode", "sent"),
    [
        ("simple", False, ["blue", "blue,black", "R,100,G,200"]),
        ("simple", True, ["blue", "blue,black", "R=100,G=200"]),
        ("label", False, [".blue", ".blue,black", ".R,100,G,200"]),
        ("label", True, [".blue", ".blue.black", ".R=100.G=200"]),
        ("matrix", False, [";color=blue", ";color=blue,black", ";color=R,100,G,200"]),
        ("matrix", True, [";color=blue", ";color=blue;color=black", ";R=100;G=200"]),
    ],
)
def test_styles_of_paths_are_those_of_rfc_6570(style: str, explode: bool, sent: list[str]) -> None:
    place = {"in": "path", "name": "color", "style": style, "explode": explode}
    values = ("blue", ["blue", "black"], {"R": 100, "G": 200})
    urls = [made({"color": place}, {"color": value}, "/x/{color}/y").url for value in values]
    assert urls == [f"https://a.example/v1/x/{text}/y" for text in sent]


@pytest.mark.spec("M106")
def test_a_slash_in_the_name_of_a_placeholder_parts_no_segments() -> None:
    place = {"in": "path", "name": "a/b", "style": "simple", "explode": False}
    assert made({"a_b": place}, {"a_b": "v"}, "/x/{a/b}/c").url == "https://a.example/v1/x/v/c"
    with pytest.raises(ToolError, match="would lead elsewhere"):
        made({"a_b": place}, {"a_b": ".."}, "/x/{a/b}/c")


@pytest.mark.spec("M106", "T97")
def test_a_path_with_a_query_is_sent_with_it_and_without_its_end() -> None:
    places = {
        "id": {"in": "path", "name": "id", "style": "simple", "explode": False},
        "limit": {"in": "query", "name": "limit", "style": "form", "explode": True},
        "filter": {"in": "query", "name": "filter", "style": "form", "explode": True},
    }
    shape = {"method": "GET", "path": "/a/{id}?beta=true&of={id}#b", "query": "beta=true&of={id}", "arguments": places}
    request = request_of(API, shape, {"id": "x&y=1", "limit": 2}, {}, Filled(query=[("key", "k")]))
    assert request.url == "https://a.example/v1/a/x%26y%3D1?beta=true&of=x%26y%3D1&limit=2&key=k"
    with pytest.raises(ToolError, match="a member with the name of a credential, or of another parameter"):
        request_of(API, shape, {"id": "x", "filter": {"beta": "false"}}, {}, Filled())


@pytest.mark.spec("M8")
def test_bodies() -> None:
    def body(value: Any, media: str, **more: Any) -> tuple[bytes | None, str]:
        request = made({"body": {"in": "body", "media": media, **more}}, {"body": value})
        return request.content, request.headers["content-type"]

    assert body({"a": [1, None]}, "application/merge-patch+json") == (
        b'{"a":[1,null]}',
        "application/merge-patch+json",
    )
    assert body("hé", "text/plain") == ("hé".encode(), "text/plain; charset=utf-8")
    form = "application/x-www-form-urlencoded"
    assert body({"a": "b c", "n": [1, 2], "o": {"x": 1}, "no": None}, form) == (
        b"a=b%20c&n=1&n=2&o=%7B%22x%22%3A1%7D",
        form,
    )
    deep = {"o": {"style": "deepObject", "explode": True}}
    assert body({"o": {"x": 1}}, form, encoding=deep)[0] == b"o%5Bx%5D=1"
    items = {"o": [{"price": "p", "tags": ["a"]}, {"price": "q"}]}
    assert unquote(body(items, form, encoding=deep)[0] or b"") == "o[0][price]=p&o[0][tags][]=a&o[1][price]=q"
    assert body("<a/>", "application/xml") == (b"<a/>", "application/xml; charset=utf-8")
    with pytest.raises(ToolError, match="an object was expected"):
        body([1], form)


PREFIXES = {"simple": "", "label": ".", "matrix": ";id="}
HARD = st.one_of(st.text(), st.text("./\\%2eEfF5cC;?#&=: \x00\u2025\uff0e", min_size=1))
TEMPLATES = st.sampled_from(["/a/{id}", "/a/{id}/b", "/a/x{id}", "/a/{id}.", "/a/.{id}/b"])


@pytest.mark.spec("M8")
@pytest.mark.property
@given(value=HARD, template=TEMPLATES, style=st.sampled_from([*PREFIXES]))
def test_no_value_changes_a_path(value: str, template: str, style: str) -> None:
    places = {"id": {"in": "path", "name": "id", "style": style, "explode": False}}
    try:
        url = made(places, {"id": value}, template).url
    except ToolError as error:
        assert error.code == "argument_refused"  # noqa: PT017  # it need not be raised
        return
    split = urlsplit(url)
    assert (split.scheme, split.netloc, split.query, split.fragment) == ("https", "a.example", "", "")
    parts, shape = split.path.removeprefix("/v1").split("/"), template.split("/")
    assert len(parts) == len(shape)
    for part, place in zip(parts, shape, strict=True):
        assert unquote(part) == place.replace("{id}", PREFIXES[style] + value)
        while (plain := unquote(part)) != part:
            part = plain  # noqa: PLW2901  # as servers that decode twice do
        assert part not in (".", "..")
        assert "{id}" not in place or not re.search(r"[/\\]", part)
    assert str(parse_url(url)) == url, "it is sent as it is"


@pytest.mark.spec("M8")
@pytest.mark.property
@given(value=HARD)
def test_slashes_lead_nowhere_up(value: str) -> None:
    try:
        places = {"id": {"in": "path", "name": "id", "style": "simple", "explode": False}}
        url = made(places, {"id": value}, "/a/{id}/b", api=LOOSE).url
    except ToolError as error:
        assert error.code == "argument_refused"  # noqa: PT017
        return
    path = urlsplit(url).path
    assert unquote(path.removeprefix("/v1/a/").removesuffix("/b")) == value
    while (plain := unquote(path)) != path:
        path = plain
    assert not {".", ".."} & set(re.split(r"[/\\]", path))


@pytest.mark.spec("M8")
@pytest.mark.property
@given(value=st.text(), name=st.text(min_size=1))
def test_no_value_adds_a_parameter(value: str, name: str) -> None:
    place = {"in": "query", "name": name, "style": "form", "explode": True}
    url = made({"q": place}, {"q": value}).url
    assert parse_qsl(urlsplit(url).query, keep_blank_values=True) == [(name, value)]


@pytest.mark.spec("M8")
@pytest.mark.property
@given(value=st.dictionaries(st.text(min_size=1), st.text()))
def test_no_value_adds_a_field_of_a_form(value: dict[str, str]) -> None:
    place = {"in": "body", "media": "application/x-www-form-urlencoded"}
    content = made({"body": place}, {"body": value}).content or b""
    assert parse_qsl(content.decode(), keep_blank_values=True) == list(value.items())


def test_bodies_are_json_without_nan() -> None:
    request = made({"body": {"in": "body", "media": "application/json"}}, {"body": {"a": "\u2028"}})
    assert json.loads(request.content or b"") == {"a": "\u2028"}


@pytest.mark.spec("M9")
@pytest.mark.parametrize("place", ["query", "cookie"])
def test_no_member_of_an_object_is_a_key_of_an_alternative_that_is_not_chosen(place: str) -> None:
    keys = [[{"scheme": "k", "type": "apiKey", "in": place, "name": "api_key"}], [{"scheme": "t", "type": "http"}]]
    free = {"in": place, "name": "f", "style": "form", "explode": True}
    shape = {"method": "POST", "path": "/x", "arguments": {"f": free}, "security": keys}
    assert request_of(API, shape, {"f": {"other": "x"}}, {}, Filled()).method == "POST"
    with pytest.raises(ToolError, match="a member with the name of a credential"):
        request_of(API, shape, {"f": {"api_key": "x"}}, {}, Filled())
