from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from capset import tool
from capset.fingerprint.canonical import canonical
from capset.fingerprint.changes import Change
from capset.fingerprint.payload_changes import diff_payloads
from capset.fingerprint.payloads import Payload, tool_payload
from tests.helpers.fingerprint.changing import flipped

pytestmark = pytest.mark.spec("F31")


def payload(annotation: Any) -> Payload:
    def save(place: Any) -> int: ...

    save.__annotations__["place"] = annotation
    return tool_payload(tool(description="Save.")(save))


def model(name: str, **fields: Any) -> type[BaseModel]:
    return create_model(name, **fields)


def changes(before: Any, after: Any) -> list[Change]:
    forward = diff_payloads(payload(before), payload(after))
    back = diff_payloads(payload(after), payload(before))
    assert sorted(map(repr, map(flipped, forward))) == sorted(map(repr, back))
    return list(forward)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Annotated[int, Field(le=10)], Annotated[int, Field(le=20)], [
            Change("schema.properties.place.maximum", "changed", 10, 20),
        ]),
        (int, Annotated[int, Field(le=20)], [Change("schema.properties.place.maximum", "added", after=20)]),
        (Literal["a", "b"], Literal["b", "c"], [
            Change("schema.properties.place.enum[]", "removed", before="a"),
            Change("schema.properties.place.enum[]", "added", after="c"),
        ]),
        (int | str, int | bool, [Change("schema.properties.place.anyOf[1].type", "changed", "string", "boolean")]),
    ],
)  # fmt: skip
def test_what_changed_in_a_parameter(before: Any, after: Any, expected: list[Change]) -> None:
    assert changes(before, after) == expected


def test_values_in_another_order_are_a_change_since_the_hash_moves() -> None:
    before, after = ({"schema": {"enum": values}} for values in (["a", "b"], ["b", "a"]))
    assert diff_payloads(before, after) == (Change("schema.enum", "reordered", ["a", "b"], ["b", "a"]),)


def test_another_name_of_a_class_alone_is_one_change() -> None:
    def places(name: str, inner: str) -> Any:
        return list[model(name, city=(str, ...), inner=(model(inner, n=(int, 1)), ...))]

    assert changes(places("Place", "Inner"), places("Town", "Other")) == [
        Change("schema.$defs", "renamed", "Inner", "Other"),
        Change("schema.$defs", "renamed", "Place", "Town"),
    ]


def test_another_name_and_another_field_are_told_apart() -> None:
    before, after = model("Place", city=(str, ...)), model("Town", city=(str, ...), size=(int, ...))
    assert changes(before, after) == [
        Change("schema.$defs", "renamed", "Place", "Town"),
        Change("schema.$defs.Place→Town.properties.size", "added", after={"type": "integer"}),
        Change("schema.$defs.Place→Town.required[]", "added", after="size"),
    ]


def test_another_class_altogether_is_no_renamed_one() -> None:
    before, after = model("Place", city=(str, ...)), model("Filter", query=(str, ...))
    assert {(change.path, change.kind) for change in changes(before, after)} == {
        ("schema.$defs.Place", "removed"),
        ("schema.$defs.Filter", "added"),
        ("schema.properties.place.$ref", "changed"),
    }


def test_a_class_that_both_sides_have_is_not_renamed() -> None:
    first, other = model("First", n=(int, 1)), model("Other", n=(int, 1))
    (change,) = changes(tuple[first, other, first], tuple[first, other, other])
    assert (change.path, change.kind) == ("schema.properties.place.prefixItems[2].$ref", "changed")


def test_a_class_that_names_itself_and_a_discriminator_follow() -> None:
    def pets(cat: str) -> Any:
        cats, dogs = model(cat, kind=(Literal["cat"], ...), lives=(int, 9)), model("Dog", kind=(Literal["dog"], ...))
        return Annotated[cats | dogs, Field(discriminator="kind")]

    assert changes(pets("Cat"), pets("Tiger")) == [Change("schema.$defs", "renamed", "Cat", "Tiger")]


def test_a_change_within_a_class_is_one_change_where_the_class_is() -> None:
    def pair(description: str) -> Any:
        place = model("Place", city=(str, Field(description=description)))
        return tuple[place, place]

    assert changes(pair("where"), pair("where it is")) == [
        Change("schema.$defs.Place.properties.city.description", "changed", "where", "where it is")
    ]


def test_names_and_data_are_no_keywords() -> None:
    def schema(name: str, required: list[str], dependent: list[str]) -> dict[str, Any]:
        # A parameter may be called like a keyword, and a default may look like a reference.
        properties = {
            "required": {"$ref": f"#/$defs/{name}"},
            "default": {"default": {"$ref": f"#/$defs/{name}", "required": required}},
            "enum": {"type": "array", "dependentRequired": {"a": dependent}},
        }
        return {"kind": "tool", "schema": {"$defs": {name: {"type": "object"}}, "properties": properties}}

    assert list(diff_payloads(schema("A", ["x", "x"], ["b", "c"]), schema("B", ["x"], ["c", "d"]))) == [
        Change("schema.$defs", "renamed", "A", "B"),
        Change("schema.properties.default.default.$ref", "changed", "#/$defs/A", "#/$defs/B"),
        Change("schema.properties.default.default.required[1]", "removed", before="x"),
        Change("schema.properties.enum.dependentRequired.a[]", "removed", before="b"),
        Change("schema.properties.enum.dependentRequired.a[]", "added", after="d"),
    ]


schemas = st.recursive(
    st.booleans()
    | st.fixed_dictionaries({"$ref": st.sampled_from(["#/$defs/A", "#/$defs/B", "#/$defs/C", "#", "x"])})
    | st.fixed_dictionaries({"enum": st.lists(st.sampled_from("ab"))}, optional={"default": st.just({"$ref": "x"})}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "enum", "$ref"]), inner, max_size=2),
            "anyOf": st.lists(inner, max_size=2),
            "items": inner,
            "required": st.lists(st.sampled_from("ab"), unique=True),
            "discriminator": st.fixed_dictionaries({"mapping": st.just({"a": "#/$defs/A"})}),
        },
    ),
    max_leaves=6,
)
roots = st.fixed_dictionaries(
    {"$defs": st.dictionaries(st.sampled_from("ABC"), schemas, max_size=3), "properties": st.just({})},
    optional={"items": schemas, "anyOf": st.lists(schemas, max_size=3)},
)


@settings(deadline=None)
@given(roots, roots)
def test_no_schema_whose_hash_moves_is_passed_over_and_both_sides_see_the_same(before: Any, after: Any) -> None:
    ours, theirs = {"kind": "tool", "schema": before}, {"kind": "tool", "schema": after}
    forward, back = diff_payloads(ours, theirs), diff_payloads(theirs, ours)
    assert bool(forward) == (canonical(before) != canonical(after))
    assert sorted(map(repr, map(flipped, forward))) == sorted(map(repr, back))
