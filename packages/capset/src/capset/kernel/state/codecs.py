"""Conversion between stored JSON text and the typed values of handlers, validated both ways (spec 1, C13, C35).

A new value is decoded again before it is stored, so that nothing is stored that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, NamedTuple, Protocol, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json, to_jsonable_python

from capset.definitions.resources import AnyResource
from capset.errors import StateError, StoredValueMisfit, unknown
from capset.schemas.own_code import has_own_code
from capset.schemas.schema import is_finite
from capset.schemas.validation_errors import VALIDATION_ERRORS, SchemaMismatch, validation_fields

EncodedValue = tuple[str, Any]
"""The text to store, and its value, of the declared type."""


class Codec(Protocol):
    """Reads and writes one kind of value. Values are of the declared type, so ``Any`` here."""

    @property
    def label(self) -> str:
        """The name of the value in errors."""
        ...

    @property
    def has_own_code(self) -> bool:
        """Whether the host's own validators, serialisers or defaults take part in a conversion."""
        ...

    def key(self, field: str) -> str:
        """Return the name that a field has in the JSON data."""
        ...

    def plain(self, field: str | None, value: Any) -> Data:
        """Return a field's value, or the whole value, as JSON data. Raises ``StateError`` if it has no such form."""
        ...

    def decode(self, text: str | None) -> Any:
        """Return the value of a stored text. Raises ``StoredValueMisfit``."""
        ...

    def encode(self, value: Any, text: str | None) -> EncodedValue:
        """Return the text and the value that replace ``text``. Raises ``StateError`` if the value does not fit."""
        ...

    def amend(self, text: str | None, change: Patch) -> EncodedValue:
        """Return the result of a change of the JSON data in ``text``. Raises as ``decode`` and ``encode`` do."""
        ...

    def remaining(self, text: str) -> str | None:
        """Return the rest of ``text`` after the value is deleted."""
        ...


class ResourceCodec:
    """A resource: the whole text is its value."""

    __slots__ = ("_model", "_resource")

    def __init__(self, resource: AnyResource) -> None:
        self._resource = resource
        kind = resource.schema.annotation
        self._model = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None

    @property
    def label(self) -> str:
        return f"the {self._resource.scope} resource {self._resource.name!r}"

    @property
    def has_own_code(self) -> bool:
        return self._resource.has_own_default or self._resource.schema.has_own_code

    def key(self, field: str) -> str:
        """Return a field's alias, if it has one."""
        info = self._model.model_fields.get(field) if self._model else None
        return (info and info.serialization_alias) or field

    def plain(self, field: str | None, value: Any) -> Data:
        schema, model = self._resource.schema, self._model
        if field is None:
            return _plain(self.label, value, lambda: from_json(schema.text(value)))
        if model is not None:
            return _plain(f"{self.label}, {field}", value, lambda: _member(model, field, value))
        return _plain(f"{self.label}, {field}", value, lambda: from_json(schema.text({field: value}))[field])

    def decode(self, text: str | None) -> Any:
        """Return the value; the default if there is none."""
        if text is not None:
            try:
                return self._resource.schema.check_json(text)
            except VALIDATION_ERRORS as error:
                raise stored_value_error(self.label, error) from None
        if self._resource.make_default is None:
            raise StateError(
                f"{self.label} has no value yet, and no default", hint="set it first, or give it a default"
            )
        return self._resource.make_default()

    def encode(self, value: Any, text: str | None) -> EncodedValue:
        return self._encode_result(lambda: self._resource.schema.check(value))

    def amend(self, text: str | None, change: Patch) -> EncodedValue:
        """Change the data, or the default if there is none, and return the result as text and as a value."""
        schema, make = self._resource.schema, self._resource.make_default

        def changed() -> Any:
            current = schema.text(make()) if text is None and make is not None else text
            return schema.check_json(to_json(change.make(MISSING if current is None else from_json(current))))

        try:
            return self._encode_result(changed)
        except StateError:
            if text is not None:
                self.decode(text)  # if the stored value does not fit either, report that instead
            raise

    def remaining(self, text: str) -> str | None:
        """Return ``None``: nothing is left."""
        return None

    def _encode_result(self, make: Callable[[], Any]) -> EncodedValue:
        schema = self._resource.schema
        try:
            text = schema.text(make())
            return text, schema.check_json(text)
        except VALIDATION_ERRORS as error:
            raise new_value_error(self.label, error) from None
        except (ValueError, RecursionError) as error:
            raise _not_json_error(self.label, error) from None


class StateCodec:
    """One model's fields in a scope's state; other models' fields in the same text stay unchanged (C33)."""

    __slots__ = ("_fields", "_joined", "_model", "_scope")

    def __init__(self, scope: str, joined: type[BaseModel], model: type[BaseModel]) -> None:
        """``model`` is the visible part of the scope's whole state, ``joined``, which is a subclass of it."""
        self._scope = scope
        self._joined = joined
        self._model = model
        self._fields = frozenset(model.model_fields)

    @property
    def label(self) -> str:
        return f"the {self._scope} state"

    @property
    def has_own_code(self) -> bool:
        return has_own_code(self._joined)

    def key(self, field: str) -> str:
        """Return the field's own name: state has no aliases."""
        return field

    def plain(self, field: str | None, value: Any) -> Data:
        """Return a value in the JSON form of the field. Raises ``StateError`` if the model has no such field."""
        if field not in self._fields:
            raise StateError(f"{self.label}: {unknown('field', str(field), self._fields)}")
        return _plain(f"{self.label}, {field}", value, lambda: _member(self._joined, str(field), value))

    def decode(self, text: str | None) -> BaseModel:
        """Return the state, of the joined model of all contributors."""
        stored: dict[str, Any] = from_json(text) if text is not None else {}
        try:
            return self._validate(stored)
        except ValidationError as error:
            raise stored_value_error(self.label, error) from None

    def encode(self, value: Any, text: str | None) -> EncodedValue:
        """Return the text with every field of the model replaced, and the state."""
        if not isinstance(value, self._model):
            raise StateError(f"{self.label} takes a value of {self._model.__name__}; got {type(value).__name__}")
        try:
            data = _dump(value, self._fields)
        except (ValueError, RecursionError) as error:
            raise _not_json_error(self.label, error) from None
        return self.amend(text, merge_into(data))

    def amend(self, text: str | None, change: Patch) -> EncodedValue:
        """Return the text with the changed fields, and the state; nothing else in the text is modified.

        ``change`` sees the stored fields, and the defaults of all others.
        """
        names = self._fields if change.fields is None else change.fields
        if unknown_fields := sorted(names - self._fields):
            raise StateError(f"{self.label}: {unknown('field', unknown_fields[0], self._fields)}")
        stored: dict[str, Any] = from_json(text) if text is not None else {}
        current = stored if stored.keys() >= self._joined.model_fields.keys() else {**self._defaults(), **stored}
        try:
            valid = self._validate(cast("dict[str, Any]", change.make(current)))
            merged = {**stored, **_dump(valid, names)}
            return to_json(merged).decode(), self._validate(merged)
        except ValidationError as error:
            self.decode(text)  # if the stored value does not fit either, report that instead
            raise new_value_error(self.label, error) from None
        except (ValueError, RecursionError) as error:
            raise _not_json_error(self.label, error) from None

    def remaining(self, text: str) -> str | None:
        """Return the text without the model's fields."""
        remaining = {name: value for name, value in from_json(text).items() if name not in self._fields}
        return to_json(remaining).decode() if remaining else None

    def _defaults(self) -> dict[str, Any]:
        instance = self._joined()
        return instance.model_dump(mode="json", by_alias=True, round_trip=True)

    def _validate(self, data: Mapping[str, Any]) -> BaseModel:
        field_values = {name: value for name, value in data.items() if name in self._joined.model_fields}
        return self._joined.model_validate_json(to_json(field_values), strict=True)


def _dump(value: BaseModel, names: frozenset[str]) -> dict[str, Data]:
    """Return some fields as JSON data. Raises ``ValueError`` for a value without such a form or of the wrong type.

    Inner models use aliases and omit computed fields, since the data will be read again.
    """
    if not is_finite([getattr(value, name) for name in names]):
        raise ValueError("JSON has no NaN and no infinities")
    return value.model_dump(mode="json", include=set(names), by_alias=True, round_trip=True, warnings="error")


def _member(model: type[BaseModel], field: str, value: Any) -> Data:
    """Return a value in the JSON form of one field of a model. Raises ``ValueError`` if it is of the wrong type."""
    (data,) = _dump(model.model_construct(**{field: value}), frozenset({field})).values()
    return data


def _plain(label: str, value: Any, write: Callable[[], Data]) -> Data:
    """Return the result of ``write``; if that fails, accept the value as JSON data, or as data close to it."""
    try:
        return write()
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        pass  # not of the declared type; whether it fits nevertheless is checked when it is read
    try:
        return to_jsonable_python(value)
    except (ValueError, RecursionError) as error:
        raise _not_json_error(label, error) from None


def stored_value_error(label: str, error: ValidationError | SchemaMismatch) -> StoredValueMisfit:
    """Return the error for a stored value that no longer fits its type; it does not reveal the value (C35)."""
    return StoredValueMisfit(
        f"the stored value of {label} no longer fits its type: {_mismatch_text(error)}",
        hint="it stays unchanged: let the type accept the old form too, or call set() or delete()",
    )


def new_value_error(label: str, error: ValidationError | SchemaMismatch) -> StateError:
    """Return the error for a new value that does not fit; nothing was written."""
    fields = validation_fields(error, (), None)
    return StateError(f"{label} cannot take this: {_mismatch_text(error)}", fields=fields)


def _mismatch_text(error: ValidationError | SchemaMismatch) -> str:
    text = "; ".join(map(str, validation_fields(error, (), None)))
    return text.replace("(arguments)", "the value").replace("no such parameter", "no such field")


def _not_json_error(label: str, error: Exception) -> StateError:
    """Return the error for a value without a JSON form; it omits pydantic's message, which may quote the value."""
    cause = str(error) if type(error) is ValueError else type(error).__name__
    return StateError(
        f"{label}: the value has no form in JSON: {cause}", hint="give values of the declared types, in finite numbers"
    )


MISSING: Final = object()
Data = Any
"""JSON data."""


class Patch(NamedTuple):
    """A change of JSON data; ``fields`` are the fields of an object that it writes, ``None`` for the whole value."""

    make: Callable[[Data], Data]
    fields: frozenset[str] | None = None


def merge_into(changes: Mapping[str, Data]) -> Patch:
    """Return the change that replaces some fields of an object."""

    def change(data: Data) -> Data:
        current = _object(data)
        return {**current, **changes}

    return Patch(change, frozenset(changes))


def add(field: str | None, by: float) -> Patch:
    """Return the change that adds to a number; a missing one counts as 0."""
    if type(by) is not int and not (isinstance(by, float) and isfinite(by)):
        raise StateError(f"increment takes a finite number; got {by!r:.80}")

    def change(number: Data) -> Data:
        current = 0 if number is MISSING or number is None else number
        if isinstance(current, bool) or not isinstance(current, int | float):
            raise StateError(
                f"only a number can be incremented; {field or 'the value'} is stored as {type(current).__name__}",
                hint="use update() for anything else, such as a Decimal, which is text in JSON",
            )
        try:
            return current + by
        except OverflowError:
            raise StateError(f"{field or 'the value'} would be more than a float can hold") from None

    return _at(field, change)


def append(field: str | None, items: list[Data]) -> Patch:
    """Return the change that appends to a list; a missing one counts as empty."""

    def change(data: Data) -> Data:
        current: object = [] if data is MISSING or data is None else data
        if not isinstance(current, list):
            raise StateError(f"only a list can be pushed to; {field or 'the value'} is {type(current).__name__}")
        return [*cast("list[Any]", current), *items]

    return _at(field, change)


def _at(field: str | None, change: Callable[[Data], Data]) -> Patch:
    if field is None:
        return Patch(change)

    def within(data: Data) -> Data:
        current = _object(data)
        return {**current, field: change(current.get(field, MISSING))}

    return Patch(within, frozenset({field}))


def _object(data: Data) -> dict[str, Any]:
    current: object = {} if data is MISSING or data is None else data
    if not isinstance(current, dict):
        raise StateError(f"only an object has fields; the value is {type(current).__name__}")
    return cast("dict[str, Any]", current)
