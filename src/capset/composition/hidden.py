"""What one state model would hide of another when both are joined in one class (spec 1, C13)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, field_validator, model_validator

_HARMLESS: Final = frozenset(
    {
        *("title", "extra", "json_schema_extra", "strict", "from_attributes", "defer_build", "protected_namespaces"),
        *("arbitrary_types_allowed", "use_attribute_docstrings", "validate_default"),
    }
)
"""Settings of a model that do not reach the fields of others: state is read strictly, field by field."""
_PYDANTIC: Final = frozenset({"model_config", "_abc_impl", "Config"})
Kept = Callable[..., Any]
"""A validator that is ready for ``create_model``."""


class Unjoinable(Exception):
    """Two models that no class can stand for together; the message says why."""


def hidden_validators(bases: Sequence[type[BaseModel]], fields: Collection[str]) -> dict[str, Kept]:
    """Return the validators of ``bases`` that another base's of the same name would hide, under names of their own.

    Raises ``Unjoinable`` for anything else that would be hidden: a method, a property, a serialiser, a setting.
    """
    _check_settings(bases)
    kept: dict[str, Kept] = {}
    shown: dict[str, tuple[type, object]] = {}
    for model in bases:
        validators = _validators(model)
        for name, owner, value in _members(model):
            first_owner, first = shown.setdefault(name, (owner, value))
            if name in fields:
                raise Unjoinable(f"{owner.__name__}.{name} would be hidden by a field of that name")
            if first is value or first == value or issubclass(first_owner, owner):
                continue
            if name not in validators or name not in _validators(first_owner):
                raise Unjoinable(f"{first_owner.__name__}.{name} would hide {owner.__name__}.{name}")
            kept[f"{name}_of_{len(kept)}"] = validators[name](value)
    return kept


def _members(model: type[BaseModel]) -> Iterator[tuple[str, type, object]]:
    """Yield what a model's classes define beside fields: name, class and value, each name once."""
    found: set[str] = set()
    for owner in model.__mro__:
        if owner in BaseModel.__mro__:
            continue
        for name, value in vars(owner).items():
            if name not in found and name not in _PYDANTIC and not name.startswith("__"):
                found.add(name)
                yield name, owner, value


def _validators(model: type) -> Mapping[str, Callable[[Any], Kept]]:
    """Return, for each validator of a model by its name, what makes it one again."""
    if not issubclass(model, BaseModel):
        return {}
    decorators, made = model.__pydantic_decorators__, dict[str, Any]()  # pydantic's overloads take one mode at a time
    for name, one in decorators.field_validators.items():
        mode: Any = one.info.mode
        made[name] = field_validator(*one.info.fields, mode=mode, check_fields=False)
    for name, one in decorators.model_validators.items():
        made[name] = model_validator(mode=one.info.mode)
    return made


def _check_settings(bases: Sequence[type[BaseModel]]) -> None:
    names = {name for model in bases for name in model.model_config} - _HARMLESS
    for name in sorted(names):
        # A setting that is off is as good as one that was never given.
        said = [model.model_config.get(name) or None for model in bases]
        if any(one != said[0] for one in said):
            told = " and ".join(f"{one!r} for {model.__name__}" for one, model in zip(said, bases, strict=True))
            raise Unjoinable(f"model_config says of {name!r} {told}")
