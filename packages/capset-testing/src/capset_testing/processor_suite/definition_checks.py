"""Checks of a processor's descriptions and factory (spec 3, K4, K5, K6)."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from capset.definitions.calls.messages import Message
from capset_testing.capability_suite.schema_fit import JsonSchema, resolve_ref
from capset_testing.processor_suite.subject import ProcessorSubject, Promise, expect


async def it_says_what_it_is(subject: ProcessorSubject) -> None:
    """Check that the tool, its inbound and its outbound messages have descriptions of at least three words."""
    tool = subject.tool
    descriptions = [("the tool", tool.description), ("its inbound", tool.inbound.get("description"))]
    for message in outbound_schemas(tool.outbound):
        (named,) = _constants(message, "type") or ("?",)
        descriptions.append((f"its outbound {named!r}", message.get("description")))
    for label, text in descriptions:
        expect(
            len(str(text or "").split()) >= 3,
            f"processor {tool.type!r}: expected a description of {label} of at least three words; got {text!r}; "
            "write it as the docstring of the model, or as description=",
        )


async def its_type_is_its_route(subject: ProcessorSubject) -> None:
    """Check that the inbound has one literal ``type``, and that messages of that type reach the processor."""
    tool, types = subject.tool, _constants(subject.tool.inbound, "type")
    expect(
        types == [tool.type],
        f"processor {tool.name!r}: expected its inbound to show the type {tool.type!r}, which leads to it; got "
        f"{types}; make it with Tool.from_processor, which reads the type from the inbound",
    )
    async with subject.open() as session:
        target = session.invoke(Message(tool.kind, tool.type)).called
    expect(
        target is tool,
        f"processor {tool.name!r}: expected messages of the type {tool.type!r} to lead to it; they lead to {target!r}; "
        "remove from uses= the capability that adds the other one",
    )


async def each_call_gets_a_processor_of_its_own(subject: ProcessorSubject) -> None:
    """Two processors from the factory share no stateful object."""
    label = f"processor {subject.tool.type!r}"
    processors = [_make_processor(label, subject) for _ in range(2)]
    for candidate in processors:
        expect(
            callable(candidate) and not inspect.isclass(candidate),
            f"{label}: expected its factory to return async def process(messages, emit, ctx); got {candidate!r:.100}; "
            "give factory= a plain function that returns one, or handles(…) or yields(…)",
        )
        expect(
            not inspect.isasyncgenfunction(candidate),
            f"{label}: expected a processor that emits; its factory returned {candidate!r:.100}, which yields; "
            "make the factory with yields(…)",
        )
    first, second = ({id(part): part for part in _stateful(processor, set())} for processor in processors)
    shared = [part for key, part in first.items() if key in second]
    expect(
        not shared,
        f"{label}: expected a fresh processor for each call; two calls share {', '.join(map(_type_label, shared))}; "
        "create the object inside the factory",
    )


def outbound_schemas(schema: JsonSchema) -> list[JsonSchema]:
    """Return the schemas of the messages in an outbound schema."""
    schemas = schema.get("oneOf", schema.get("anyOf", [schema]))
    return [resolve_ref(option, schema) for option in schemas]


def _constants(schema: JsonSchema, name: str) -> list[object]:
    field = schema.get("properties", {}).get(name, {})
    return [field["const"]] if "const" in field else list(field.get("enum", ()))


def _make_processor(label: str, subject: ProcessorSubject) -> Any:
    try:
        processor = subject.tool.handler()
    except Exception as error:  # any error of the author's code
        raise AssertionError(
            f"{label}: expected its factory to make a processor; it raised {error!r}; "
            "move code that can fail into the processor"
        ) from error
    if asyncio.iscoroutine(processor):
        processor.close()
        raise AssertionError(
            f"{label}: expected its factory to be a plain function; it is async def; return the processor from a def"
        )
    return processor


def _stateful(value: Any, visited: set[int]) -> Iterator[object]:
    """Yield the stateful objects that a processor is, is bound to, or calls."""
    if id(value) in visited:
        return
    visited.add(id(value))
    match value:
        case FunctionType():
            for cell in value.__closure__ or ():
                try:
                    inner = cell.cell_contents
                except ValueError:  # not bound yet
                    continue
                if callable(inner):
                    yield from _stateful(inner, visited)
        case MethodType():
            yield from _stateful(value.__func__, visited)
            yield from _stateful_owner(value.__self__)
        case BuiltinFunctionType():
            yield from _stateful_owner(value.__self__)
        case functools.partial():
            for part in (cast("object", value.func), *value.args, *value.keywords.values()):
                if callable(part):
                    yield from _stateful(part, visited)
        case _ if hasattr(value, "__wrapped__"):
            yield from _stateful(value.__wrapped__, visited)
        case _:
            yield from _stateful_owner(value)


def _stateful_owner(value: Any) -> Iterator[object]:
    if value is None or inspect.isclass(value) or isinstance(value, ModuleType):
        return
    if getattr(getattr(value, "__dataclass_params__", None), "frozen", False):
        return
    has_slots = any(getattr(ancestor, "__slots__", ()) for ancestor in type(value).__mro__)
    if getattr(value, "__dict__", None) or has_slots or isinstance(value, list | dict | set | bytearray):
        yield value


def _type_label(value: object) -> str:
    return f"a {type(value).__qualname__}"


ALWAYS: Final[tuple[Promise, ...]] = (it_says_what_it_is, its_type_is_its_route, each_call_gets_a_processor_of_its_own)
