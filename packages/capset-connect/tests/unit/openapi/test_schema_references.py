"""References of OpenAPI documents that are recursive or dynamic, and parents whose options refer back to them (K25)."""

from __future__ import annotations

from typing import Any

import pytest

from capset.schemas.json_schema import compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch
from capset_connect.openapi.api import OpenApi
from capset_connect.openapi.document import document_of
from capset_connect.openapi.operations import offers_of
from capset_connect.pins.offers import Offer

Data = dict[str, Any]


def offer(schemas: Data, of: str | Data, version: str = "3.1.0") -> Offer:
    """Return the one operation of a document, whose body is one of these schemas."""
    schema = {"$ref": f"#/components/schemas/{of}"} if isinstance(of, str) else of
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    document: Data = {
        "openapi": version,
        "servers": [{"url": "https://a.example"}],
        "paths": {"/a": {"post": {"operationId": "a", "requestBody": body}}},
        "components": {"schemas": schemas},
    }
    (only,) = offers_of(OpenApi(name="lib", document={}), document_of(document))
    return only


def takes(operation: Offer, value: Any) -> bool:
    assert operation.problems == ()
    try:
        compile_json_schema("it", operation.shape["inputSchema"]).check({"body": value})
    except SchemaMismatch:
        return False
    return True


LEAF: Data = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}


def filters(**keywords: Any) -> Data:
    either = [{"$ref": "#/components/schemas/Leaf"}, {"$recursiveRef": "#"}]
    several = {"type": "array", "items": {"oneOf": either}}
    return {**keywords, "type": "object", "properties": {"filters": several}, "required": ["filters"]}


@pytest.mark.spec("K25", "M8")
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("keywords", [{}, {"$recursiveAnchor": True}], ids=["", "anchor"])
def test_a_recursive_reference_leads_to_its_component(version: str, keywords: Data) -> None:
    operation = offer({"Leaf": LEAF, "All": filters(**keywords)}, "All", version)
    assert takes(operation, {"filters": [{"key": "a"}, {"filters": [{"filters": []}]}]})
    assert not takes(operation, {"filters": [{"filters": [{"filters": 1}]}]})


@pytest.mark.spec("K25", "M8")
def test_a_recursive_reference_that_is_overridden_is_named() -> None:
    outer = {"$recursiveAnchor": True, "allOf": [{"$ref": "#/components/schemas/All"}]}
    schemas = {"Leaf": LEAF, "All": filters(**{"$recursiveAnchor": True}), "Outer": outer}
    overridden = offer(schemas, "Outer")
    assert overridden.is_unusable
    assert "Outer' overrides the $recursiveRef of '#/components/schemas/All'" in overridden.problems[0]
    assert takes(offer(schemas, "All"), {"filters": []})
    assert "outside of the schemas of components" in offer({}, {"items": {"$recursiveRef": "#"}}).problems[0]


@pytest.mark.spec("K25", "M8")
def test_a_dynamic_reference_leads_to_its_one_anchor() -> None:
    node: Data = {
        "$dynamicAnchor": "node",
        "properties": {"next": {"$dynamicRef": "#node"}, "size": {"type": "integer"}},
    }
    operation = offer({"Node": node}, "Node")
    assert takes(operation, {"next": {"next": {"size": 1}}})
    assert not takes(operation, {"next": {"next": {"size": "1"}}})
    inside = {
        "Box": {"properties": {"in": {"$dynamicRef": "#x/y"}}, "$defs": {"a/b": {"$anchor": "x/y", "type": "null"}}}
    }
    assert (takes(offer(inside, "Box"), {"in": None}), takes(offer(inside, "Box"), {"in": 1})) == (True, False)
    many = offer({"Node": node, "Other": {"$dynamicAnchor": "node"}}, "Node")
    assert "its $dynamicRef is '#node', and 2 schemas have that anchor" in many.problems[0]
    assert "and no schema has that anchor" in offer({"Node": {"$dynamicRef": "#none"}}, "Node").problems[0]


def child(name: str, *parents: str, **members: Any) -> Data:
    schema = {"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]}
    return {"allOf": [*({"$ref": f"#/components/schemas/{parent}"} for parent in parents), schema], **members}


def parent(*options: str, **members: Any) -> Data:
    return {
        "type": "object",
        "properties": {"kind": {"type": "string"}, "friend": {"$ref": "#/components/schemas/Pet"}},
        "required": ["kind"],
        "discriminator": {"propertyName": "kind"},
        "oneOf": [{"$ref": f"#/components/schemas/{option}"} for option in options],
        **members,
    }


@pytest.mark.spec("K25", "M8")
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_parent_whose_children_refer_back_takes_each_of_them(version: str) -> None:
    schemas = {"Pet": parent("Cat", "Dog"), "Cat": child("lives", "Pet"), "Dog": child("legs", "Pet")}
    pet, cat = offer(schemas, "Pet", version), offer(schemas, "Cat", version)
    assert takes(pet, {"kind": "cat", "lives": 9})
    assert takes(pet, {"kind": "dog", "legs": 4, "friend": {"kind": "cat", "lives": 9}})
    for wrong in ({"kind": "fish"}, {"lives": 9}, {"kind": "cat", "lives": "9"}):
        assert not takes(pet, wrong)
    assert not takes(pet, {"kind": "dog", "legs": 4, "friend": {"kind": "fish"}}), (
        "below a field it is the whole parent"
    )
    assert (takes(cat, {"kind": "cat", "lives": 9}), takes(cat, {"kind": "dog", "legs": 4})) == (True, False)
    assert not takes(cat, {"lives": 9})


@pytest.mark.spec("K25", "M8")
def test_grandchildren_and_aliases_refer_back_as_well() -> None:
    schemas = {
        "Pet": parent("Dog"),
        "Dog": child("legs", "Alias", oneOf=[{"$ref": "#/components/schemas/Puppy"}], discriminator={}),
        "Puppy": child("weeks", "Dog"),
        "Alias": {"$ref": "#/components/schemas/Pet"},
    }
    pet = offer(schemas, "Pet")
    assert takes(pet, {"kind": "dog", "legs": 4, "weeks": 3})
    assert not takes(pet, {"kind": "dog", "legs": 4})
    assert not takes(pet, {"kind": "dog", "weeks": 3})


@pytest.mark.spec("K25", "M8")
def test_a_loop_without_a_discriminator_is_refused() -> None:
    schemas = {
        "A": {"oneOf": [{"$ref": "#/components/schemas/B"}]},
        "B": {"allOf": [{"$ref": "#/components/schemas/A"}]},
    }
    assert "may lead back to itself only through a field" in offer(schemas, "A").problems[0]


@pytest.mark.spec("K24", "M8")
def test_a_pattern_that_is_not_checked_is_a_note_and_no_problem() -> None:
    operation = offer({"Code": {"type": "string", "pattern": "^(?!x)"}}, "Code")
    (note,) = operation.notes
    assert note == "inputSchema: this pattern does not take linear time, so it is not checked: ^(?!x)"
    assert (takes(operation, "x"), takes(operation, 1)) == (True, False)
