from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from math import nan
from typing import Any, Literal, get_args

import pytest

from capset import DefinitionError
from capset.definitions.fields import POSITIVE, REAL, checked_field, instance_of, requiring, store_checked, within

Colour = Literal["red", "green"]


@dataclass(frozen=True, slots=True)
class Paint:
    litres: float = checked_field(requiring("a paint's {} are a number", within(REAL, POSITIVE, 10)))
    colour: Colour = checked_field(requiring("{} is red or green", get_args(Colour).__contains__), "red")
    tins: int | None = checked_field(requiring("{} is 1 or more", within(int, 1), optional=True), None)
    label: str = checked_field(lambda name, text: text.strip() or name, "")

    def __post_init__(self) -> None:
        store_checked(self)


def test_what_a_check_returns_is_stored() -> None:
    paint = Paint(0.5, "green", 3, " x ")
    assert (paint.litres, paint.colour, paint.tins, paint.label) == (0.5, "green", 3, "x")
    assert Paint(10) == Paint(10, "red", None, "label")
    with pytest.raises(FrozenInstanceError):
        paint.tins = 4  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    ("problem", "changes"),
    [
        *(("a paint's litres are a number", {"litres": wrong}) for wrong in (0, 10.5, nan, True, None, "9" * 100)),
        *(("colour is red or green", {"colour": wrong}) for wrong in ("blue", ["red"], None)),
        ("colour is red or green", {"colour": 3, "tins": 0}),
        ("tins is 1 or more", {"tins": 1.0}),
    ],
)
def test_what_does_not_fit_is_refused_by_the_name_of_its_field(problem: str, changes: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"litres": 1, **changes}
    with pytest.raises(DefinitionError) as caught:
        Paint(**arguments)
    assert caught.value.message == f"{problem}; got {next(iter(changes.values()))!r:.80}"


def test_an_object_of_a_class_is_one_of_a_subclass_too() -> None:
    assert instance_of(int)(True)
    assert not instance_of(int)("1")


def test_the_arguments_of_an_initialiser_are_checked_before_they_are_stored() -> None:
    paint = object.__new__(Paint)
    store_checked(paint, {"litres": 2, "colour": "red", "tins": None, "label": "a", "self": paint})
    assert paint == Paint(2, label="a")
