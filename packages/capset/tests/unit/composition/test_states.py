"""Joining state: fields add up, the later default holds, and the validators of all models run (spec 1, C13)."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Generic, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from typing_extensions import TypeVar

from capset import Agent, Capability, DefinitionError, compose
from capset.composition.states import MergedState
from capset.errors import StateConflict

T = TypeVar("T")


pytestmark = pytest.mark.spec("C13")


def refuse(unlucky: int) -> Any:
    def check(cls: Any, value: int) -> int:
        if value == unlucky:
            raise ValueError(f"{unlucky} is unlucky")
        return value

    return classmethod(check)


class Counter(BaseModel):
    count: int = Field(default=1, ge=0, description="how many")
    check = field_validator("count")(refuse(7))


class Limits(BaseModel):
    count: Annotated[int, Field(ge=0, title="Count")] = 5
    limit: int = 10
    check = field_validator("limit")(refuse(8))

    @model_validator(mode="after")
    def fits(self) -> Limits:
        if self.count > self.limit:
            raise ValueError("more than the limit")
        return self


class Small(Limits):
    size: Literal["s", "m"] = "s"


def merged(*models: type[BaseModel], scope: Any = "session") -> MergedState:
    uses = [Capability(f"c{number}", state={scope: model}) for number, model in enumerate(models)]
    return compose(Agent("a", uses=uses)).merged.states[scope]


def test_fields_add_up_and_the_later_default_holds() -> None:
    first, other = merged(Counter, Limits), merged(Limits, Counter)
    assert first.model().model_dump() == {"count": 5, "limit": 10}
    assert other.model().model_dump() == {"count": 1, "limit": 10}
    assert {Counter, Limits} <= {*first.model.__mro__}
    assert {name: source.capability for name, source in first.fields.items()} == {"count": "c1", "limit": "c1"}
    assert {name: source.capability for name, source in other.fields.items()} == {"limit": "c0", "count": "c1"}


class Wider(BaseModel):
    limit: int = 20


@pytest.mark.parametrize(
    ("models", "limit"), [((Small, Wider, Limits), 10), ((Limits, Wider, Small), 10), ((Small, Limits, Wider), 20)]
)
def test_the_later_default_holds_where_a_model_comes_after_one_that_inherits_from_it(models: Any, limit: int) -> None:
    assert merged(*models).model().model_dump()["limit"] == limit


@pytest.mark.parametrize("models", [(Counter, Limits), (Limits, Counter), (Limits, Counter, Small), (Small, Counter)])
def test_the_validators_of_all_run_though_they_share_a_name(models: Any) -> None:
    model = merged(*models).model
    for wrong, message in (
        ({"count": 7}, "7 is unlucky"),
        ({"limit": 8}, "8 is unlucky"),
        ({"count": 4, "limit": 3}, "more than the limit"),
        ({"count": -1}, "greater than or equal to 0"),
    ):
        with pytest.raises(ValidationError, match=message):
            model(**wrong)
    assert model(count=3, limit=4).model_dump(include={"count", "limit"}) == {"count": 3, "limit": 4}


def test_one_model_that_is_shared_or_inherited_from_is_there_once() -> None:
    assert merged(Counter, Counter).model is Counter
    assert issubclass(merged(Limits, Small).model, Small)
    assert merged(Limits, Small).model().model_dump() == {"count": 5, "limit": 10, "size": "s"}
    assert [entry.value for entry in merged(Counter, Small, Counter).models] == [Counter, Small]


class Colour(Enum):
    RED = "red"


class Farbe(Enum):
    RED = "red"


class Street(BaseModel):
    name: str = Field(default="", description="of the street")
    colour: Colour = Colour.RED


class Road(BaseModel):
    name: str = Field(default="High Street", title="A road")
    colour: Farbe = Farbe.RED


class Here(BaseModel):
    where: Street = Street()


class There(BaseModel):
    where: Road = Field(default_factory=Road)


class Tree(BaseModel):
    kids: list[Tree] = []


class Baum(BaseModel):
    kids: list[Baum] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Katze(BaseModel):
    kind: Literal["cat"] = "cat"


class Pet(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] = Cat()


class Tier(BaseModel):
    pet: Annotated[Katze | Dog, Field(discriminator="kind")] = Katze()


class Box(BaseModel, Generic[T]):
    inside: T | None = None


@pytest.mark.parametrize(
    "models",
    [(Here, There), (Tree, Baum), (Pet, Tier), (Box[int], Box[int]), (Box[Street], Box[Road])],
)
def test_fields_of_equal_schemas_are_compatible_whatever_their_classes(models: Any) -> None:
    for first, other in (models, models[::-1]):
        joined = merged(first, other).model
        assert joined().model_dump(mode="json") == other().model_dump(mode="json")


class Text(BaseModel):
    count: str = ""


class Positive(BaseModel):
    count: int = Field(1, gt=0)


class Titled(BaseModel):
    where: dict[str, str] = {}


class Grown(BaseModel):
    where: Tree = Tree()


class Leaf(BaseModel):
    up: Leaf | None = None


class Branch(BaseModel):
    leaf: Leaf


class Grove(BaseModel):
    tree: Branch | None = None


class Back(BaseModel):
    up: Ring | None = None


class Ring(BaseModel):
    leaf: Back


class Wreath(BaseModel):
    """Like a grove as far as its third level."""

    tree: Ring | None = None


@pytest.mark.parametrize(
    ("first", "other", "field"),
    [
        *((Counter, Text, "count"), (Counter, Positive, "count"), (Here, Titled, "where"), (Here, Grown, "where")),
        *((Box[int], Box[str], "inside"), (Grove, Wreath, "tree")),
    ],
)
def test_fields_of_other_types_conflict_and_both_are_named(first: Any, other: Any, field: str) -> None:
    for pair in ((first, other), (other, first)):
        with pytest.raises(StateConflict) as refused:
            merged(*pair)
        both = "capability 'c0' (a → c0) and capability 'c1' (a → c1) have a"
        assert refused.value.message == f"{both} field {field!r} of different types in the session state"
        assert (refused.value.code, bool(refused.value.hint)) == ("state_conflict", True)


def test_fields_of_different_scopes_never_meet() -> None:
    first, other = Capability("one", state={"session": Counter}), Capability("other", state={"user": Text})
    states = compose(Agent("a", uses=[first, other])).merged.states
    assert (states["session"].model, states["user"].model) == (Counter, Text)


class Left(BaseModel):
    a: int = 1


class Right(BaseModel):
    b: int = 1


class LeftRight(Left, Right):
    pass


class RightLeft(Right, Left):
    pass


class Methodical(Left):
    def total(self) -> int:
        return self.a


class AlsoMethodical(Right):
    def total(self) -> int:
        return -self.b


class Total(BaseModel):
    total: int = 0


class NotOne(BaseModel):
    count: int = 2
    check = field_validator("count")(refuse(1))


class One(BaseModel):
    count: int = 1


class Lower(BaseModel):
    model_config = ConfigDict(str_to_lower=True)

    text: str = "x"


@pytest.mark.parametrize(
    ("first", "other", "why"),
    [
        (LeftRight, RightLeft, "method resolution order"),
        (Methodical, AlsoMethodical, "AlsoMethodical.total would hide Methodical.total"),
        (Methodical, Total, "Methodical.total would be hidden by a field of that name"),
        (NotOne, One, "the default of count does not fit the constraints"),
        (Lower, Total, "model_config sets 'str_to_lower' to None for Total and True for Lower"),
    ],
)
def test_models_that_no_class_can_stand_for_conflict_and_both_are_named(first: Any, other: Any, why: str) -> None:
    with pytest.raises(StateConflict) as refused:
        merged(first, other)
    message = refused.value.message
    assert message.startswith("capability 'c0' (a → c0) and capability 'c1' (a → c1): their models cannot be joined")
    assert why in message
    assert refused.value.hint
    if first is not NotOne:  # there the later default is another
        with pytest.raises(StateConflict):
            merged(other, first)


def test_settings_that_reach_no_other_field_may_differ() -> None:
    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid", title="Closed", frozen=False)

        a: int = 1

    assert merged(Closed, Counter).model().model_dump() == {"a": 1, "count": 1}


class Needy(BaseModel):
    name: str


class Wrong(BaseModel):
    name: int = "x"  # pyright: ignore[reportAssignmentType]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Aliased(BaseModel):
    name: str = Field("", alias="theName")


class Generated(BaseModel):
    model_config = ConfigDict(alias_generator=str.upper)

    name: str = ""


@pytest.mark.spec("C39")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Needy, "Needy: name needs a default that fits"),
        (Wrong, "Wrong: name needs a default that fits"),
        (Open, "Open allows extra fields"),
        (Aliased, "Aliased.name has an alias"),
        (Generated, "Generated.name has an alias"),
        (dict, "is a pydantic model class; got <class 'dict'>"),
        (Counter(), "is a pydantic model class; got Counter"),
    ],
)
def test_a_model_that_cannot_hold_shared_state_is_refused_at_definition(model: Any, message: str) -> None:
    ways: list[dict[str, Any]] = [{"state": {"session": model}}, {"sequencer_state": model}, {"targets": {"x": model}}]
    for options in ways:
        with pytest.raises(DefinitionError, match="capability 'c'") as refused:
            Capability("c", **options)
        assert message in str(refused.value)


@pytest.mark.parametrize("state", [{"sesion": Counter}, {5: Counter}, [Counter], Counter, "session"])
def test_a_scope_is_one_of_four(state: Any) -> None:
    with pytest.raises(DefinitionError, match=r"capability 'c': (unknown scope|state is a mapping)"):
        Capability("c", state=state)
