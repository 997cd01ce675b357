"""Handlers of tools: their parameters and results from the signature, and the descriptions from the docstring."""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from inspect import Parameter
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import Field
from pydantic.fields import FieldInfo

from capset.definitions.callables import bound_names, inner_function, refuse_wrapped_async
from capset.definitions.calls.contexts import Context
from capset.definitions.calls.messages import Progress, Reply
from capset.definitions.names import checked_copy
from capset.errors import DefinitionError
from capset.schemas.generators import CopiedDefault

Shape = Literal["sync", "async", "stream", "processor"]
F = TypeVar("F", bound=Callable[..., Any])
ADAPTED: Final = "__capset_adapts__"
"""The attribute of a function wrapped by capset that holds the original."""
EVENTLESS_VARIANT: Final = "__capset_eventless__"
"""The attribute of a stream handler that holds the function that does the same work without events."""
_IMMUTABLE_TYPES: Final = (date, time, timedelta, Decimal, UUID, PurePath, frozenset)
"""Types whose values are immutable, although ``deepcopy`` returns another object."""
_STREAM_TYPES = (AsyncIterator, AsyncGenerator, AsyncIterable)
_LAZY_TYPES = (*_STREAM_TYPES, Generator, Iterable, Iterator)


@dataclass(frozen=True, slots=True)
class Signature:
    """A handler's annotations: those of its ``parameters``, in order and without the context, and of its result."""

    shape: Shape
    takes_context: bool
    parameters: Mapping[str, Any]
    returns: Any


def read_signature(owner: str, function: Callable[..., Any], described: Mapping[str, str]) -> Signature:
    """Read a handler's signature; ``owner`` names its tool in errors: ``tool 'save_note'``.

    Raises ``DefinitionError`` naming the owner and the parameter at fault.
    """
    inner = inner_function(function)
    if inspect.isclass(inner):
        raise DefinitionError(
            f"{owner}: a handler is a function; got {function!r:.80}", hint="write a function that makes the object"
        )
    hints = _resolve_hints(owner, inner)
    parameters = _parameters(owner, function)
    takes_context = bool(parameters) and _is_context(hints.get(parameters[0].name))
    if takes_context and parameters[0].kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        raise DefinitionError(f"{owner}, parameter {parameters[0].name!r}: Context is passed by position")
    fields: dict[str, Any] = {}
    for parameter in parameters[1:] if takes_context else parameters:
        fields[parameter.name] = _field_annotation(owner, parameter, hints, described.get(parameter.name))
    if described and (unknown := sorted(described.keys() - inspect.signature(inner).parameters.keys())):
        raise DefinitionError(f"{owner}: the docstring describes {unknown[0]!r}, which is not a parameter")
    shape, produced = _shape_and_result(owner, inner, hints)
    return Signature(shape, takes_context, fields, produced)


def read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return a handler's description, empty without a docstring, and the descriptions of its parameters."""
    inner = inner_function(function)
    # The docstring of partial does not describe the function; that of an object is its class's.
    docstring = inspect.cleandoc(inner.__doc__ or "") if inner is not function else ""
    text = (docstring or (not isinstance(function, partial) and inspect.getdoc(function)) or "").strip()
    if "\n" not in text:
        return text, {}
    # Only docstrings with more than one line pay for the parser.
    from docstring_parser import parse

    parsed = parse(text)
    if not parsed.meta:
        return text, {}
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    description = gap.join(part for part in (parsed.short_description, parsed.long_description) if part)
    described = {parameter.arg_name: " ".join((parameter.description or "").split()) for parameter in parsed.params}
    return description, {parameter: words for parameter, words in described.items() if words}


def mark_adapter(function: Callable[..., Any], wrapper: F) -> F:
    """Mark ``wrapper`` as the adapter of a user's function, whose code is hashed instead; return ``wrapper``.

    ``__wrapped__`` would be wrong: the two have different parameters.
    """
    vars(wrapper)[ADAPTED] = function
    return wrapper


def set_eventless_variant(stream: F, plain: Callable[..., Awaitable[Any]]) -> F:
    """Let ``plain`` do the work of a stream handler when its events are not read; return the handler.

    ``plain`` has the same parameters, and returns the data of the handler's reply.
    """
    vars(stream)[EVENTLESS_VARIANT] = plain
    return stream


def has_eventless_variant(handler: Callable[..., Any]) -> bool:
    """Whether a stream handler has a variant without events, whose result is its reply."""
    return EVENTLESS_VARIANT in getattr(handler, "__dict__", ())


def is_adapted(function: Callable[..., Any]) -> bool:
    """Whether ``mark_adapter`` has marked a function."""
    return ADAPTED in getattr(function, "__dict__", ())


def _parameters(owner: str, function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function, except those that a partial binds: a model must not change them."""
    bound = bound_names(function)
    try:
        return [
            parameter for parameter in inspect.signature(function).parameters.values() if parameter.name not in bound
        ]
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{owner}: {error}") from None


def _is_context(annotation: Any) -> bool:
    """Whether an annotation is the context, also with a type for its helpers."""
    return (get_origin(annotation) or annotation) is Context


def _resolve_hints(owner: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise DefinitionError(
            f"{owner}: the annotation {error.name!r} cannot be resolved",
            hint="define the types at module level, and import them at run time, not only for type checking",
        ) from None
    except Exception as error:  # an annotation may be any expression
        raise DefinitionError(f"{owner}: {error}") from None


def _field_annotation(owner: str, parameter: Parameter, hints: Mapping[str, Any], description: str | None) -> Any:
    where = f"{owner}, parameter {parameter.name!r}"
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise DefinitionError(f"{where}: only parameters that are passed by name can be described to a model")
    if parameter.name not in hints:
        hint = None
        if parameter.name in ("self", "cls"):
            hint = "pass the bound method: tool(service.search)"
        raise DefinitionError(f"{where} needs a type annotation", hint=hint)
    annotation = hints[parameter.name]
    if _is_context(annotation):
        raise DefinitionError(f"{where}: Context comes first or not at all")
    bare, *declared = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    default = parameter.default
    if isinstance(default, FieldInfo):  # def f(count: int = Field(gt=0)), as in pydantic models
        declared, default = [*declared, default], parameter.empty
    if bare is Any:
        raise DefinitionError(f"{where}: Any says nothing to a model; use object, or the type that is meant")
    if (lazy := _lazy_type(annotation)) is not None:
        raise DefinitionError(
            f"{where}: an argument of type {lazy.__name__} can be read only once, and is not validated; "
            "use list or Sequence"
        )
    fields = [note for note in declared if isinstance(note, FieldInfo)]
    if any(field.alias or field.validation_alias for field in fields):
        raise DefinitionError(f"{where}: an alias would be another name than its own; rename the parameter instead")
    notes: dict[str, Any] = {}
    if description and not any(field.description for field in fields):
        notes["description"] = description
    if default is not parameter.empty:
        notes |= _default_options(checked_copy(f"{where}: its default", default))
    metadata = [checked_copy(f"{where}: its Field", note) if isinstance(note, FieldInfo) else note for note in declared]
    if notes:
        metadata.append(Field(**notes))
    return Annotated[(bare, *metadata)] if metadata else bare


def _default_options(value: Any) -> dict[str, Any]:
    """Return the options of a ``Field`` that gives every call a fresh default, which a handler may change.

    Pydantic copies only unhashable defaults.
    """
    try:
        hash(value)
    except TypeError:
        return {"default": value}
    if isinstance(value, _IMMUTABLE_TYPES) or deepcopy(value) is value:
        return {"default": value}
    return {"default_factory": CopiedDefault(value)}


def _lazy_type(annotation: Any) -> type | None:
    """Return the type in an annotation whose values can be read only once, or ``None``."""
    origin = get_origin(annotation) or annotation
    for lazy in _LAZY_TYPES:
        if origin is lazy:
            return lazy
    return next(filter(None, map(_lazy_type, get_args(annotation))), None)


def _shape_and_result(owner: str, function: Callable[..., Any], hints: Mapping[str, Any]) -> tuple[Shape, Any]:
    if "return" not in hints:
        raise DefinitionError(f"{owner} needs a return annotation: its result is validated against it")
    refuse_wrapped_async(owner, function)
    returned = hints["return"]
    if inspect.isasyncgenfunction(function) or get_origin(returned) in _STREAM_TYPES:
        if inspect.iscoroutinefunction(function):
            raise DefinitionError(f"{owner}: a streaming handler yields; it does not return an iterator to await")
        return "stream", _checked_result(owner, _reply_type(owner, returned))
    if inspect.isgeneratorfunction(function):
        raise DefinitionError(f"{owner}: a streaming handler is an async generator, not a plain one")
    return ("async" if inspect.iscoroutinefunction(function) else "sync"), _checked_result(owner, returned)


def _checked_result(owner: str, returned: Any) -> Any:
    if returned is Any:
        raise DefinitionError(f"{owner}: a return annotation of Any promises nothing; use object, or the type")
    return returned


def _reply_type(owner: str, returned: Any) -> Any:
    emitted = (get_args(returned) or (None,))[0]
    options = get_args(emitted) if get_origin(emitted) in (Union, UnionType) else (emitted,)
    replies = [option for option in options if (get_origin(option) or option) is Reply]
    others = [option for option in options if option not in replies and option is not Progress]
    if others or len(replies) != 1 or not get_args(replies[0]):
        raise DefinitionError(
            f"{owner}: a streaming handler returns AsyncIterator[Progress | Reply[T]]; got {returned}"
        )
    return get_args(replies[0])[0]
