"""How public documents are measured: what is counted, sampled and compared, on documents of our own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.schemas.json_schema import compile_json_schema
from lab.corpus import documents, loading
from lab.corpus.__main__ import main
from lab.corpus.expected import Place, Received, differences, normal, path_text, query_pairs
from lab.corpus.loading import LoadedDocument, load
from lab.corpus.nodes import operations_of
from lab.corpus.requests import compare_all
from lab.corpus.samples import NoSample, Sampler

LIST, OBJECT = ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}
OPERATION: dict[str, Any] = {"responses": {}}


def document(paths: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"openapi": "3.0.3", "info": {"title": "Own", "version": "1"}, "paths": paths, **members}


def saved(folder: Path, data: dict[str, Any], name: str = "own.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(data))
    return path


# The table of styles of OpenAPI 3.1.1.
@pytest.mark.parametrize(
    ("style", "explode", "value", "text"),
    [
        ("matrix", False, "", ";color"),
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, LIST, ";color=blue,black,brown"),
        ("matrix", False, OBJECT, ";color=R,100,G,200,B,150"),
        ("matrix", True, LIST, ";color=blue;color=black;color=brown"),
        ("matrix", True, OBJECT, ";R=100;G=200;B=150"),
        ("label", False, "", "."),
        ("label", False, LIST, ".blue,black,brown"),
        ("label", False, OBJECT, ".R,100,G,200,B,150"),
        ("label", True, LIST, ".blue.black.brown"),
        ("label", True, OBJECT, ".R=100.G=200.B=150"),
        ("simple", False, "a/b c", "a%2Fb%20c"),
        ("simple", False, LIST, "blue,black,brown"),
        ("simple", False, OBJECT, "R,100,G,200,B,150"),
        ("simple", True, OBJECT, "R=100,G=200,B=150"),
    ],
)
def test_values_in_paths_are_those_of_the_table(style: str, explode: bool, value: Any, text: str) -> None:
    assert path_text({"name": "color", "style": style, "explode": explode}, value) == text


@pytest.mark.parametrize(
    ("style", "explode", "value", "text"),
    [
        ("form", False, "", "color="),
        ("form", False, LIST, "color=blue,black,brown"),
        ("form", False, OBJECT, "color=R,100,G,200,B,150"),
        ("form", True, LIST, "color=blue&color=black&color=brown"),
        ("form", True, OBJECT, "R=100&G=200&B=150"),
        ("spaceDelimited", False, LIST, "color=blue%20black%20brown"),
        ("spaceDelimited", False, OBJECT, "color=R%20100%20G%20200%20B%20150"),
        ("pipeDelimited", False, LIST, "color=blue%7Cblack%7Cbrown"),
        ("deepObject", True, OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        ("deepObject", True, {"a": [{"b": "c"}]}, "color%5Ba%5D%5B%5D%5Bb%5D=c"),
    ],
)
def test_values_in_queries_are_those_of_the_table(style: str, explode: bool, value: Any, text: str) -> None:
    pairs = query_pairs({"name": "color", "style": style, "explode": explode}, value)
    assert "&".join(f"{name}={value}" for name, value in pairs) == text


def test_parts_of_urls_are_the_same_if_rfc_3986_says_so() -> None:
    assert normal("%7ea%2f[b]") == normal("~a%2F%5Bb%5D")
    assert normal("a/b") != normal("a%2Fb")
    assert normal("a,b") != normal("a%2Cb")


DOCUMENT = document(
    {
        "/pets/{id}?beta=true#get": {
            "post": {
                **OPERATION,
                "operationId": "find",
                "security": [{"key": []}, {"token": []}],
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {}},
                    {"name": "tags[]", "in": "query", "schema": {}},
                    {"name": "X-Trace", "in": "header", "schema": {}},
                    {"name": "theme", "in": "cookie", "schema": {}},
                ],
                "requestBody": {"content": {"application/json": {}, "application/x-www-form-urlencoded": {}}},
            }
        }
    },
    components={
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "query", "name": "key"},
            "token": {"type": "http", "scheme": "bearer"},
        }
    },
)
VALUES: Mapping[Place, Any] = {
    ("path", "id"): "a b",
    ("query", "tags[]"): ["x", "y"],
    ("header", "x-trace"): "t",
    ("cookie", "theme"): "dark",
}
TARGET = "/base/pets/a%20b?key=k&tags%5b%5d=x&tags[]=y&beta=true"
HEADERS = {"x-trace": "t", "cookie": "theme=dark", "content-type": "application/json; charset=utf-8"}


def compared(value: Any = None, /, **changes: Any) -> list[str]:
    """Return the differences of a request that is right but for changes; ``value`` is that of its body."""
    sent: dict[str, Any] = {
        "method": "POST",
        "target": TARGET,
        "headers": HEADERS,
        "body": json.dumps({"a": [1]}).encode(),
        **changes,
    }
    (operation,) = operations_of(DOCUMENT)
    body = {"a": [1]} if value is None else value
    return differences(DOCUMENT, operation, "/base", VALUES, body, {"key": "k", "token": "t"}, Received(**sent))


def test_a_request_as_the_document_wants_it_differs_in_nothing() -> None:
    assert compared() == []
    assert compared(target=TARGET.replace("key=k&", ""), headers={**HEADERS, "authorization": "Bearer t"}) == []
    form = {**HEADERS, "content-type": "application/x-www-form-urlencoded"}
    assert compared({"a": {"b": "c d"}}, headers=form, body=b"a%5Bb%5D=c+d") == []
    assert compared({"a": {"b": "c d"}}, headers=form, body=b"a=%7B%22b%22%3A%22c%20d%22%7D") == []


@pytest.mark.parametrize(
    "change",
    [
        {"method": "PUT"},
        {"target": TARGET.replace("a%20b", "a+b")},
        {"target": TARGET.replace("&beta=true", "")},
        {"target": TARGET.replace("&tags[]=y", "")},
        {"target": TARGET.replace("=x", "=y").replace("[]=y", "[]=x")},
        {"target": TARGET.replace("key=k&", "")},
        {"target": f"{TARGET}#get"},
        {"headers": {**HEADERS, "authorization": "Bearer t"}},
        {"headers": {**HEADERS, "x-trace": "u"}},
        {"headers": {**HEADERS, "cookie": "theme=light"}},
        {"headers": {**HEADERS, "content-type": "text/plain"}},
        {"body": b'{"a": [2]}'},
    ],
    ids=str,
)
def test_what_differs_in_a_request_is_seen(change: dict[str, Any]) -> None:
    assert len(compared(**change)) == 1


def test_parts_of_a_form_with_a_file_are_compared_one_by_one() -> None:
    upload = document({"/a": {"post": {**OPERATION, "requestBody": {"content": {"multipart/form-data": {}}}}}})
    (operation,) = operations_of(upload)
    body = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n\xff\x00\r\n'
        b'--x\r\nContent-Disposition: form-data; name="more"\r\nContent-Type: application/json\r\n\r\n{"a": 1}'
        b"\r\n--x--\r\n"
    )
    headers = {"content-type": "multipart/form-data; boundary=x"}
    received = Received("POST", "/a", headers, body)
    assert differences(upload, operation, "", {}, {"file": b"\xff\x00", "more": {"a": 1}}, {}, received) == []
    assert differences(upload, operation, "", {}, {"file": b"\xff\x01", "more": {"a": 1}}, {}, received) != []


TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "number"}, "next": {"$ref": "#/$defs/tree"}},
    "required": ["n"],
}
SCHEMAS: list[dict[str, Any]] = [
    {"type": "string", "minLength": 3, "maxLength": 4},
    {"type": "string", "pattern": "^[0-9]{6}$"},
    {"type": ["null", "integer"], "exclusiveMinimum": 2, "maximum": 9, "multipleOf": 3},
    {"type": "array", "items": {"enum": ["a", None]}, "minItems": 1, "maxItems": 3},
    {"type": "object", "properties": {"a": {"const": 1}, "b": {"format": "date"}}, "required": ["a"]},
    {"allOf": [{"properties": {"a": {"type": "boolean"}}, "required": ["a"]}, {"properties": {"b": {}}}]},
    {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/tree"}], "$defs": {"tree": TREE}},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@given(seed=st.integers())
def test_samples_fit_their_schemas(schema: dict[str, Any], seed: int) -> None:
    compile_json_schema("a schema", schema).check(Sampler(schema, Random(seed)).value(schema))


def test_a_schema_that_nothing_fits_has_no_sample() -> None:
    endless = {"$defs": {"a": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/a"}}}}}
    for schema in ({**endless, "$ref": "#/$defs/a"}, {"minimum": 2, "maximum": 1}, {"$ref": "https://elsewhere"}):
        with pytest.raises(NoSample):
            Sampler(schema, Random(0)).value(schema)


def test_operations_that_are_no_tools_are_counted_by_their_reasons(tmp_path: Path) -> None:
    paths = {
        "/a": {"get": OPERATION, "trace": OPERATION},
        "/b": {"get": {**OPERATION, "operationId": "same"}, "post": {**OPERATION, "operationId": "same"}},
    }
    loaded = load(saved(tmp_path, document(paths)))
    assert (loaded.operations, loaded.tools, loaded.crash) == (4, 1, "")
    assert loaded.reasons == {
        "its method is TRACE, which is not sent": 1,
        "the document has another operation with this id": 1,
        "another operation has its id": 1,
    }


def test_a_large_document_is_loaded_tag_by_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MOST_AT_ONCE", 2)
    paths = {f"/{at}": {"get": {**OPERATION, "tags": tags}} for at, tags in enumerate((["a"], ["a", "b"], []))}
    loaded = load(saved(tmp_path, document(paths)))
    assert (loaded.is_by_tag, loaded.operations, loaded.tools, loaded.reasons) == (True, 3, 3, {})


@pytest.mark.realtime
def test_documents_are_loaded_in_processes_and_a_crash_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    good = saved(tmp_path, document({"/a": {"get": OPERATION}}))
    crashed, loaded = documents.load_all([tmp_path / "folder.json", good])
    assert (crashed.crash.partition(":")[0], loaded.tools) == ("IsADirectoryError", 1)
    assert 20 << 20 < loaded.peak_bytes < documents.MOST_BYTES


@pytest.mark.parametrize(
    ("row", "is_met"),
    [
        (LoadedDocument("a", operations=100, tools=99, peak_bytes=500 << 20), True),
        (LoadedDocument("a", operations=100, tools=98), False),
        (LoadedDocument("a", operations=100, tools=100, crash="it is gone"), False),
        (LoadedDocument("a", operations=100, tools=100, peak_bytes=(500 << 20) + 1), False),
        (LoadedDocument("a", operations=100, tools=0, is_by_tag=True), True),
    ],
)
def test_each_bound_fails_by_itself(row: LoadedDocument, is_met: bool) -> None:
    assert documents.report([row]) is is_met


def own_api() -> dict[str, Any]:
    """Return a document with a parameter in each place, and a body of each kind."""
    texts, numbers = {"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "integer"}}
    fields = {"type": "object", "properties": {"note": {"type": "string"}, "sizes": numbers}}
    bounds = {"type": "object", "properties": {"from": {"type": "integer"}}, "required": ["from"]}
    file = {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}, "required": ["file"]}

    def operation(name: str, media: str, schema: dict[str, Any]) -> dict[str, Any]:
        body = {"required": True, "content": {media: {"schema": schema}}}
        return {**OPERATION, "operationId": name, "requestBody": body}

    query = [
        {"name": "tags", "in": "query", "required": True, "schema": texts},
        {"name": "range", "in": "query", "style": "deepObject", "explode": True, "schema": bounds},
        {"name": "X-Trace", "in": "header", "required": True, "schema": {"type": "string"}},
    ]
    return document(
        {
            "/list": {"get": {**OPERATION, "operationId": "list", "parameters": query}},
            "/pets/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "put": operation("put", "application/json", fields),
                "post": operation("post", "application/x-www-form-urlencoded", fields),
                "patch": operation("patch", "multipart/form-data", file),
            },
        },
        security=[{"key": []}],
        components={"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    )


async def test_requests_are_those_that_their_documents_want(tmp_path: Path) -> None:
    paths = [saved(tmp_path, own_api(), f"{name}.json") for name in ("a", "b", "c")]
    result = await compare_all(paths, Random(1), most_documents=3, most_operations=12)
    assert result.wrong == []
    assert (result.documents, result.calls) == (3, 12)


def test_a_part_that_there_is_not_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err == "corpus: expected some of documents, requests, schemas; got nothing\n"
