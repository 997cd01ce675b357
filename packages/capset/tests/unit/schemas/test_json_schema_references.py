"""References of all dialects, dynamic ones too, and what else the standard's own suite of tests holds to (K25)."""

from __future__ import annotations

from typing import Any

import pytest

from capset.errors import DefinitionError
from capset.schemas.json_schema import compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch

pytestmark = pytest.mark.spec("K25")
Data = dict[str, Any]
D7 = "http://json-schema.org/draft-07/schema#"
D2019 = "https://json-schema.org/draft/2019-09/schema"
D2020 = "https://json-schema.org/draft/2020-12/schema"


def takes(schema: Data, value: Any) -> bool:
    compiled = compile_json_schema("it", schema)
    try:
        assert compiled.check(value) == value
    except SchemaMismatch as misfit:
        return not misfit.fields  # of what is refused, something is said
    return True


def tree(dialect: str, *, is_overridden: bool) -> Data:
    """Return a tree whose nodes have names, if the schema of the whole overrides the reference of the inner."""
    if dialect == D2019:
        anchor, reference = {"$recursiveAnchor": True}, {"$recursiveRef": "#"}
    else:
        anchor, reference = {"$dynamicAnchor": "node"}, {"$dynamicRef": "#node"}
    children = {"type": "array", "items": reference}
    inner = {"$id": "tree", **anchor, "type": "object", "properties": {"children": children}}
    named = {"properties": {"name": {"type": "string"}}, "required": ["name"], "$ref": "tree"}
    identity = {"$schema": dialect, "$id": "https://example.org/named"}
    return {**identity, **(anchor if is_overridden else {}), **named, "$defs": {"tree": inner}}


@pytest.mark.parametrize("dialect", [D2019, D2020])
def test_a_dynamic_reference_leads_where_it_is_overridden_and_else_as_a_plain_one(dialect: str) -> None:
    plain, overridden = (tree(dialect, is_overridden=is_overridden) for is_overridden in (False, True))
    for schema in (plain, overridden):
        assert takes(schema, {"name": "a", "children": [{"name": "b", "children": []}]})
        assert not takes(schema, {"name": "a", "children": [{"name": "b", "children": 1}]})
        assert not takes(schema, {"children": []})
    assert takes(plain, {"name": "a", "children": [{"children": []}]})
    assert not takes(overridden, {"name": "a", "children": [{"children": []}]})


BASE: Data = {"$id": "base", "$dynamicRef": "#more", "$defs": {"none": {"$dynamicAnchor": "more"}}}
LIKE_A_DIALECT = "https://json-schema.org/draft/mine"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "base", "$defs": {"base": BASE, "more": {"$dynamicAnchor": "more", "$ref": "base"}}},
        {"$ref": LIKE_A_DIALECT, "$defs": {"a": {"$id": LIKE_A_DIALECT, "allOf": [{"$ref": LIKE_A_DIALECT}]}}},
    ],
)
def test_a_reference_that_may_come_to_no_end_is_refused(schema: Data) -> None:
    with pytest.raises(DefinitionError, match="may lead back to itself only through a field or an item"):
        compile_json_schema("it", schema)
    assert takes({"$ref": "base", "$defs": {"base": BASE}}, 1), "by itself it leads nowhere"


@pytest.mark.parametrize("dialect", [D7, D2019, D2020])
def test_a_reference_to_the_dialect_itself_needs_nothing_from_outside(dialect: str) -> None:
    schema = {"$schema": dialect, "$ref": dialect}
    assert takes(schema, {"type": "object", "properties": {"a": {"minLength": 1}}})
    assert not takes(schema, {"properties": {"a": {"minLength": -1}}})


@pytest.mark.spec("T4")
def test_dynamic_references_share_the_anchors_that_they_may_lead_to() -> None:
    """A list at each reference would have as many entries as there are references, times the anchors."""
    anchors = {f"d{number}": {"$id": f"d{number}", "$dynamicAnchor": "a"} for number in range(50)}
    fields = {f"f{number}": {"$dynamicRef": "d0#a"} for number in range(50)}
    compiled = compile_json_schema("it", {"properties": fields, "$defs": anchors})
    assert compiled.check({"f1": 1}) == {"f1": 1}
    (shared,) = {node for field in compiled.root.fields.values() for node in field.in_place}
    assert len([*shared.in_place]) == 50


@pytest.mark.spec("T4")
@pytest.mark.parametrize("is_overridden", [False, True])
@pytest.mark.parametrize("dialect", [D2019, D2020])
def test_a_tree_may_be_deep_whose_references_are_dynamic(dialect: str, is_overridden: bool) -> None:
    value: Data = {"name": "a"}
    for _ in range(40):
        value = {"name": "a", "children": [value]}
    assert takes(tree(dialect, is_overridden=is_overridden), value)


def test_nothing_beside_a_reference_counts_up_to_draft_7() -> None:
    referring = {"$ref": "#/definitions/a", "maxItems": 0}
    beside: Data = {"properties": {"x": referring}, "definitions": {"a": {"type": "array"}}}
    assert takes({"$schema": D7, **beside}, {"x": [1]})
    assert not takes(beside, {"x": [1]})
    definitions = {
        "elsewhere": {"$id": "http://localhost:1234/foo.json", "type": "string"},
        "here": {"$id": "foo.json", "type": "number"},
    }
    entry = {"$id": "http://localhost:1234/", "$ref": "foo.json"}
    based: Data = {"$schema": D7, "$id": "http://localhost:1234/base/", "definitions": definitions, "allOf": [entry]}
    assert (takes(based, 1), takes(based, "a")) == (True, False)


SLASHED: Data = {"a/b": {"type": "integer"}, "c~d": {"type": "string"}, "e%f": {"type": "null"}}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"type": "integer"}, 1.0, 1.5),
        ({"uniqueItems": True}, [1, True, 0, False], [1, 1.0]),
        ({"enum": [0, [False]]}, 0.0, False),
        ({"const": {"a": False}}, {"a": False}, {"a": 0}),
        ({"multipleOf": 0.0001}, 0.0075, 0.00751),
        ({"contains": {"const": 1}, "minContains": 0, "maxContains": 1}, [], [1, 1]),
        ({"dependentSchemas": {"a": False}}, {"b": 1}, {"a": 1}),
        ({"properties": {"a": True, "b": False}}, {"a": 1}, {"b": 1}),
        ({"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "null"}}}, None, 1),
        ({"properties": {"x": {"$ref": "#/$defs/a~1b"}}, "$defs": SLASHED}, {"x": 1}, {"x": "1"}),
        ({"properties": {"x": {"$ref": "#/$defs/c~0d"}}, "$defs": SLASHED}, {"x": "1"}, {"x": 1}),
        ({"properties": {"x": {"$ref": "#/$defs/e%25f"}}, "$defs": SLASHED}, {"x": None}, {"x": 1}),
        ({"properties": {"$ref": {"type": "string"}}}, {"$ref": "a"}, {"$ref": 1}),
        ({"properties": {"$id": {"type": "string"}, "$defs": {}}}, {"$id": "a", "$defs": 1}, {"$id": 1}),
        ({"$defs": {"": {"$defs": {"": {"type": "number"}}}}, "allOf": [{"$ref": "#/$defs//$defs/"}]}, 1, "a"),
        ({"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, {"a": 1}, {"c": 1}),
        ({"if": {"const": 1}, "then": {"type": "integer"}, "unevaluatedItems": False}, [], [1]),
        ({"pattern": r"^\d{2}$"}, "12", "123"),
        ({"pattern": "a"}, 12, "b"),
    ],
    ids=str,
)
def test_what_the_suite_holds_to(schema: Data, valid: Any, invalid: Any) -> None:
    for whole in (schema, {"$schema": D2020, **schema}):
        assert (takes(whole, valid), takes(whole, invalid)) == (True, False)
