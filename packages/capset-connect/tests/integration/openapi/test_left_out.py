"""What of an operation cannot be sent, and is left out with a note; and the names of arguments (spec 7, M105, M106)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.schemas.json_schema import compile_json_schema
from capset_connect.openapi.argument_names import argument_names
from capset_connect.openapi.depths import Depth, depths_of
from capset_connect.openapi.operations import offers_of
from tests.helpers.connect.openapi.documents import api, doc, one
from tests.helpers.connect.openapi.support import document, echo, opened, serving, things

LISTS = {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}


def properties_of(parameters: list[Any], **operation: Any) -> dict[str, Any]:
    """Return the arguments of an operation that has no problems."""
    offer = one({"parameters": parameters, **operation})
    assert offer.problems == ()
    return offer.shape["inputSchema"]["properties"]


@pytest.mark.spec("M105")
@pytest.mark.parametrize(
    ("parameter", "note"),
    [
        ({"in": "header", "name": "Content-Length"}, "its parameter 'content-length' is a header that cannot be set"),
        ({"in": "header", "name": "a b"}, "its parameter 'a b' is a header that cannot be set"),
        ({"in": "cookie", "name": "a;b"}, "its parameter 'a;b' has a name that no cookie can have"),
        ({"in": "query", "name": ""}, "its parameter '' is in 'query'; expected a name"),
        ({"in": "body", "name": "b"}, "its parameter 'b' is in 'body'"),
        ({"in": "query", "name": "q", "style": "matrix"}, "its parameter 'q' has the style 'matrix'"),
        ({"in": "query", "name": "q", "content": {"application/xml": {}}}, "only JSON can be"),
        ({"in": "query", "name": "q", "schema": LISTS}, "which the style 'form' cannot send"),
        ({"in": "query", "name": "q", "schema": {"$ref": "#/components/schemas/Far"}}, "leads out of the document"),
    ],
)
def test_an_optional_parameter_that_cannot_be_sent_is_left_out_and_a_required_one_is_a_problem(
    parameter: dict[str, Any], note: str
) -> None:
    schemas = {"Far": {"type": "object", "properties": {"a": {"$ref": "https://far.example/a.json"}}}}
    other = {"in": "query", "name": "limit", "schema": {"type": "integer"}}
    offer = one({"parameters": [parameter, other]}, components={"schemas": schemas})
    assert offer.problems == ()
    assert offer.shape["inputSchema"] == {
        "type": "object",
        "properties": {"limit": {"type": "integer"}},
        "additionalProperties": False,
    }
    (actual,) = offer.notes
    assert actual.startswith("left out: ")
    assert note in actual
    required = one({"parameters": [{**parameter, "required": True}, other]}, components={"schemas": schemas})
    assert required.is_unusable
    assert note in required.problems[0]


@pytest.mark.spec("M105")
def test_parameters_whose_names_become_the_same_have_distinct_ones() -> None:
    names = ("ids", "ids[]", "a[b]", "a_b", "StartTime", "StartTime<", "StartTime>", "日本", "x" * 65)
    properties = properties_of([{"in": "query", "name": name, "schema": {"type": "string"}} for name in names])
    assert list(properties)[:6] == ["ids", "ids_6e89b5f4", "a_b_26974bc5", "a_b", "StartTime", "StartTime_2607c3c7"]
    assert len(properties) == len(names)
    assert properties["ids"] == {"type": "string"}
    assert properties["StartTime_2607c3c7"] == {"type": "string", "description": "Sent as 'StartTime<'."}
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in properties)


@pytest.mark.spec("M105")
async def test_each_of_them_is_sent_by_its_own_name() -> None:
    keys = [("query", name) for name in ("t<", "t", "日本")]
    parameters = [{"in": where, "name": name, "schema": {"type": "string"}} for where, name in keys]
    async with serving(echo()) as upstream, opened(things(upstream, document(parameters=parameters))) as site:
        values = {name: key[1] for key, name in argument_names(keys, has_body=False).items()}
        assert sorted(site.tool("things_find").parameters) == sorted(values)
        await site.call("things_find", **values)
        assert dict(parse_qsl(urlsplit(upstream.last.target).query)) == {name: name for _, name in keys}


KEYS = st.sets(
    st.tuples(st.sampled_from(["path", "query", "header", "cookie"]), st.text("ab[]<_.é", min_size=1, max_size=4))
    | st.tuples(st.sampled_from(["path", "query"]), st.sampled_from(["body", "query_a", "path_a", "a", "x" * 64])),
    max_size=8,
)


@pytest.mark.spec("M105")
@pytest.mark.property
@given(keys=KEYS, has_body=st.booleans())
def test_names_of_arguments_are_distinct_and_depend_on_no_order(keys: set[tuple[str, str]], has_body: bool) -> None:
    names = argument_names(sorted(keys), has_body=has_body)
    assert names == argument_names(sorted(keys, reverse=True), has_body=has_body)
    assert len({*names.values()}) == len(keys)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in names.values())
    assert not has_body or "body" not in names.values()


@pytest.mark.spec("M106")
def test_a_get_has_no_body() -> None:
    def notes(**body: Any) -> tuple[str, ...]:
        offer = one({"requestBody": body})
        assert (offer.problems, offer.shape["arguments"]) == ((), {})
        return offer.notes

    form = "application/x-www-form-urlencoded"
    empty = {form: {"encoding": {}, "schema": {"properties": {}, "type": "object"}}}
    assert notes(content=empty, required=False) == ()
    assert notes(content=empty, required=True) == ()
    (note,) = notes(content={form: {"schema": {"properties": {"a": {}}}}})
    assert note == "left out: its body, which many servers ignore for a GET"


@pytest.mark.spec("M106")
def test_a_model_is_told_what_a_style_cannot_send() -> None:
    item = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object"}}}
    free: dict[str, Any] = {"in": "query", "name": "q", "schema": item}
    assert properties_of([free])["q"]["description"] == "Lists and objects within others cannot be sent."
    deep = {**free, "style": "deepObject", "schema": {"type": "array", "items": item}}
    assert "description" not in properties_of([deep])["q"]
    assert "description" not in properties_of([{**free, "schema": {"properties": {"a": {"type": "array"}}}}])["q"]


@pytest.mark.spec("M106")
def test_a_field_of_a_form_that_its_style_cannot_send_is_left_out() -> None:
    nested = {"type": "array", "items": {"type": "object"}}
    media = "application/x-www-form-urlencoded"

    def offered(style: str, *required: str) -> Any:
        schema = {"type": "object", "properties": {"a": nested, "b": {"type": "string"}}, "required": [*required]}
        typed = {"schema": schema, "encoding": {"a": {"style": style, "explode": True}}}
        return one({"requestBody": {"content": {media: typed}}}, method="post")

    deep = offered("deepObject")
    assert (deep.problems, deep.notes) == ((), ())
    assert [*deep.shape["inputSchema"]["properties"]["body"]["properties"]] == ["a", "b"]
    reduced = offered("form", "b")
    assert reduced.notes == (
        "left out: its body: 'a' has lists or objects within others, which the style 'form' cannot send",
    )
    assert [*reduced.shape["inputSchema"]["properties"]["body"]["properties"]] == ["b"]
    assert offered("form", "a").is_unusable


NODE: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}


@pytest.mark.spec("M106")
@pytest.mark.parametrize(
    ("schema", "minimum", "maximum"),
    [
        ({}, Depth.SCALAR, Depth.SCALAR),
        ({"type": ["string", "null"]}, Depth.SCALAR, Depth.SCALAR),
        ({"items": {"type": "string"}}, Depth.LIST, Depth.LIST),
        ({"type": "object"}, Depth.OBJECT, Depth.OBJECT),
        ({"properties": {"a": {"type": "array"}}}, Depth.OBJECT, Depth.OBJECT_OF_LISTS),
        ({"properties": {"a": {"type": "array"}}, "required": ["a"]}, Depth.OBJECT_OF_LISTS, Depth.OBJECT_OF_LISTS),
        ({"additionalProperties": {"type": "object"}, "type": "object"}, Depth.OBJECT, Depth.DEEPER),
        ({"anyOf": [{"type": "object"}, {"type": "integer"}]}, Depth.SCALAR, Depth.OBJECT),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, Depth.LIST, Depth.LIST),
        ({"allOf": [{"type": "object"}, {"description": "x"}]}, Depth.OBJECT, Depth.OBJECT),
        ({"$ref": "#/$defs/N"}, Depth.OBJECT, Depth.DEEPER),
        ({"type": "array", "items": {"$ref": "#/$defs/N"}}, Depth.DEEPER, Depth.DEEPER),
    ],
)
def test_depths_of_schemas(schema: dict[str, Any], minimum: Depth, maximum: Depth) -> None:
    assert depths_of(schema, {"N": NODE}) == (minimum, maximum)


@pytest.mark.spec("M106")
def test_a_long_chain_of_schemas_is_no_end() -> None:
    chain = {f"S{n}": {"allOf": [{"$ref": f"#/$defs/S{n + 1}"}]} for n in range(5_000)}
    assert depths_of({"$ref": "#/$defs/S0"}, chain)[0] == Depth.SCALAR


@pytest.mark.spec("M105")
def test_members_that_are_null_are_absent_and_texts_for_people_may_be_anything() -> None:
    schema = {
        "type": ["string", None],
        "properties": {"a": None},
        "items": None,
        "enum": None,
        "title": 1,
        "description": ["x"],
        "deprecated": "no",
        "required": True,
        "exclusiveMinimum": True,
        "minimum": 1,
    }
    operation: dict[str, Any] = {
        "operationId": "a",
        "summary": 7,
        "description": {"x": 1},
        "parameters": [None, {"in": "query", "name": "q", "style": None, "content": None, "schema": schema}],
        **dict.fromkeys(("requestBody", "responses", "servers", "tags", "security", "deprecated")),
    }
    nothing = dict.fromkeys(("components", "tags", "security", "info", "jsonSchemaDialect"))
    (offer,) = offers_of(api(), doc(paths={"/a": {"parameters": None, "get": operation}, "/b": None}, **nothing))
    assert offer.problems == ()
    assert offer.shape["description"] == "GET /a"
    assert offer.shape["inputSchema"]["properties"]["q"] == {
        "type": ["string", "null"],
        "properties": {"a": {}},
        "exclusiveMinimum": 1,
    }
    compile_json_schema("it", offer.shape["inputSchema"])
    assert offers_of(api(), doc(paths=None)) == []


@pytest.mark.spec("M105")
def test_security_that_is_null_is_that_of_the_document() -> None:
    schemes = {"k": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    offer = one({"security": None}, security=[{"k": []}], components={"securitySchemes": schemes})
    assert offer.problems == ("it needs a credential: declare one in credentials for 'k' (apiKey)",)


@pytest.mark.spec("M106")
async def test_operations_that_differ_in_a_query_or_the_end_of_their_paths() -> None:
    target = {"in": "header", "name": "X-Target", "required": True, "schema": {"enum": ["A.Get"]}}
    beta = {"in": "query", "name": "beta", "required": True, "schema": {"type": "boolean"}}
    limit = {"in": "query", "name": "limit", "schema": {"type": "integer"}}
    data = document()
    data["paths"] = {
        "/messages?beta=true": {"get": {"operationId": "list", "parameters": [beta, limit]}},
        "/#X-Target=A.Get": {"post": {"operationId": "get", "parameters": [target]}},
        "/things#acl": {"get": {"operationId": "acl"}},
        "/search{?q}": {"get": {"operationId": "search", "parameters": [{"in": "query", "name": "q", "schema": {}}]}},
        "/find?q={q}": {"get": {"operationId": "find", "parameters": [{"in": "query", "name": "q", "schema": {}}]}},
    }
    async with serving(echo()) as upstream:
        notes = {offer.name: offer.notes for offer in offers_of(things(upstream, data), doc(**data))}
        assert notes == {
            **dict.fromkeys(("find", "get", "list", "search"), ()),
            "acl": ("not sent: '#acl' at the end of its path",),
        }
        async with opened(things(upstream, data)) as site:
            assert list(site.tool("things_list").parameters) == ["limit"], "the path says that it is beta"
            await site.call("things_list", limit=2)
            assert upstream.last.target == "/messages?beta=true&limit=2"
            await site.call("things_get", **{"x-target": "A.Get"})
            assert (upstream.last.target, upstream.last.headers["x-target"]) == ("/", "A.Get")
            await site.call("things_acl")
            assert upstream.last.target == "/things"
            for name in ("search", "find"):
                await site.call(f"things_{name}", q="a&b")
                assert upstream.last.target == f"/{name}?q=a%26b"
