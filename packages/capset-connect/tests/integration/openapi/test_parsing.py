"""Documents as they come: text that is none, YAML, capset's own, and others with anything in any place."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.errors import DefinitionError
from capset_connect.openapi.document import document_of, parse_document
from capset_connect.openapi.operations import offers_of, unmatched
from scripts.packages import ROOT
from tests.helpers.connect.openapi.documents import LIBRARY, api

GOLDEN = ROOT / "tests/golden/openapi.json"


@pytest.mark.spec("M8", "M107", "T97")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"openapi": "4.0.0"}', "not of OpenAPI 3.0, 3.1 or 3.2, nor of Swagger 2.0; its version is '4.0.0'"),
        ('{"swagger": "1.2"}', "its version is '1.2'"),
        ("[1]", "an object was expected"),
        ("just text", "an object was expected"),
        ('{"openapi": "3.1.0", "openapi": "3.1.1"}', "a duplicate name"),
        ('{"openapi": "3.1.0", "jsonSchemaDialect": "http://json-schema.org/draft-07/schema#"}', "of the dialect"),
        ('{"openapi": "3.1.0", "paths": []}', "its paths: an object was expected"),
        ('{"openapi": ', "cannot be read"),
        ("{" * 100_000, "cannot be read"),
        ("- " * 50_000, "nested more than 100 levels"),
        ("[" * 50_000, "nested more than 100 levels"),
        ("openapi: 3.1.0\nopenapi: 3.1.0", "line 2: not YAML: a key is repeated"),
        ("a: &a [x]\nb: {<<: *a}", "'<<' can merge objects only"),
        ("a: !!python/name:os.system", "line 1: not YAML: the tag 'tag:yaml.org,2002:python/name:os.system'"),
        ("a: !!timestamp 2024-01-01", "not YAML: the tag"),
        ("a: !!int x", "not YAML: a value is not of its type"),
        ("\n".join(["a0: &a0 [x]", *(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]" for n in range(40))]), "5,000,000 values"),
        (
            "\n".join(["a0: &a0 {x: y}", *(f"a{n + 1}: &a{n + 1} {{<<: *a{n}, k{n}: *a{n}}}" for n in range(40))]),
            "5,000,000 values",
        ),
        (
            "\n".join(["a0: &a0 [x]", *(f"a{n + 1}: &a{n + 1} [*a{n}]" for n in range(100))]),
            "nested more than 100 levels",
        ),
        ("a: &a [*a]", "line 1: not YAML: the alias 'a' is undefined"),
        ("a: *b", "the alias 'b' is undefined"),
        ("? [a]\n: b", "line 1: not YAML: a key is not text"),
        ("a: 1\n---\nb: 2", "has several documents"),
        ("a: 1e999", "a number is too large"),
        (f"a: {'9' * 5_000}", "a number has too many digits"),
        ("a: \x00", "not YAML"),
    ],
)
def test_what_is_no_document_is_refused(text: str, problem: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        parse_document(text.encode(), "the document")
    assert problem in raised.value.message


@pytest.mark.spec("M8")
def test_yaml_is_that_of_version_1_2() -> None:
    text = "openapi: 3.1\nx: {on: off, 1: 010, d: 2024-01-01, t: true, n: ~, f: 1.5, i: -3, s: '1'}\n"
    assert parse_document(text.encode(), "it").data["x"] == {
        "on": "off",
        "1": "010",
        "d": "2024-01-01",
        "t": True,
        "n": None,
        "f": 1.5,
        "i": -3,
        "s": "1",
    }


@pytest.mark.spec("M107")
def test_merge_keys_of_yaml_are_merged() -> None:
    text = """
    openapi: 3.1.0
    base: &base {a: 1, b: 2}
    more: &more {b: 3, c: [4]}
    own: {<<: *base, b: 9}
    first: {b: 9, <<: [*base, *more], d: 5}
    again:
      <<: *more
      <<: {e: 6}
    plain: {"<<": 7}
    """
    data = parse_document(text.encode(), "it").data
    assert data["own"] == {"a": 1, "b": 9}
    assert data["first"] == {"a": 1, "b": 9, "c": [4], "d": 5}, "what is there itself goes before, then the first"
    assert data["again"] == {"b": 3, "c": [4], "e": 6}
    assert data["plain"] == {"<<": 7}


@pytest.mark.spec("M8")
def test_capsets_own_document_is_read() -> None:
    document = parse_document(GOLDEN.read_bytes(), "the document")
    count = sum(
        method in item
        for item in document.data["paths"].values()
        for method in ("get", "put", "post", "delete", "patch")
    )
    offers = offers_of(api(url="https://capset.example"), document)
    assert len(offers) == count
    assert all(offer.hash or offer.problems for offer in offers)
    usable = [offer for offer in offers if not offer.is_unusable]
    assert len(usable) > count * 3 / 4
    assert json.dumps([offer.shape for offer in usable])


ODD = st.sampled_from(
    [None, True, 0, -1.5, "", "x", "#/", "#/paths", "{a}", "https://[", [], [[]], [{}], {}, {"$ref": 1}, {"": {}}]
)
WHOLE = parse_document(LIBRARY.encode(), "the document").data


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each value inside another."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner_path for key, member in inner for inner_path in places(member, (*path, key)))]


@pytest.mark.spec("M8", "M4")
@pytest.mark.property
@given(changes=st.lists(st.tuples(st.sampled_from(places(WHOLE)[1:]), ODD), min_size=1, max_size=3))
def test_anything_in_any_place_is_a_problem_or_none(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    data: Any = deepcopy(dict(WHOLE))
    for path, odd in changes:
        inside = data
        for step in path[:-1]:
            try:
                inside = inside[step]
            except (LookupError, TypeError):
                break
        else:
            if isinstance(inside, dict) and isinstance(path[-1], str):
                inside[path[-1]] = deepcopy(odd)  # or a later change would be one of it, too
    declared = api(operations=["books.get", "PUT /books/{id}"], rules={"x": {"effect": "read"}}, credentials={"y": "z"})
    try:
        document = document_of(data, "https://a.example/openapi.json")
    except DefinitionError:
        return
    assert all(offer.hash or offer.problems for offer in offers_of(declared, document))
    assert unmatched(declared, document)
