from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from capset import DefinitionError, Tool, tool


class Plain:
    """A class that pydantic knows nothing of."""


class Box(BaseModel):
    size: int


class Tagged(BaseModel):
    tags: set[str]


IMPORTS = """
from collections import deque
from collections.abc import *
from typing import Annotated, Any, NoReturn
from pydantic import Field
from capset import Context, Progress, Reply
"""


def function(
    parameters: str = "a: int", returns: str = "int", body: str = "return a", prefix: str = ""
) -> Callable[..., Any]:
    """Define a function from its source, as its author would have written it in a module of its own."""
    module = types.ModuleType("their_module")
    vars(module).update(Plain=Plain, Box=Box, Tagged=Tagged)
    result = f" -> {returns}" if returns else ""
    exec(f"{IMPORTS}\n{prefix}def do({parameters}){result}:\n    'Do.'\n    {body}\n", vars(module))
    return module.do


def define(*source: str, **more: Any) -> Tool[..., Any]:
    return tool(function(*source, **more))


STREAM = {"prefix": "async ", "body": "yield Reply(a)"}


@pytest.mark.spec("K4", "G5")
@pytest.mark.parametrize(
    ("part", "problem", "sources"),
    [
        ("parameters", "parameter 'a' needs a type annotation", ["a"]),
        ("parameters", "parameter 'a': Any says nothing", ["a: Any", "a: Annotated[Any, 'x']"]),
        ("parameters", "parameter 'a': only parameters that are passed by name", ["*a: int", "**a: int", "a: int, /"]),
        ("parameters", "parameter 'ctx': Context comes first", ["a: int, ctx: Context", "a: int, *, ctx: Context"]),
        ("parameters", "'ctx': Context is passed by position", ["*, ctx: Context, a: int", "*ctx: Context"]),
        ("parameters", "parameter 'ctx'", ["ctx: Context | None, a: int"]),
        ("parameters", "annotation 'Nowhere' cannot be resolved", ["a: 'Nowhere'"]),
        ("parameters", "must be an expression", ["a: 'int or'"]),
        ("parameters", "no attribute 'nothing'", ["a: 'Plain.nothing'"]),
        ("parameters", "division", ["a: '1/0'"]),
        ("parameters", "parameter 'a'.*Plain", ["b: int, a: Plain", "b: int, a: list[Plain]"]),
        ("parameters", "parameter 'a'.*Callable", ["b: int, a: Callable[[], int]"]),
        ("parameters", "parameter 'a'", ["a: 5"]),
        ("parameters", "parameter 'a'.*unclosed group", ["a: Annotated[str, Field(pattern='(')]"]),
        ("parameters", "parameter 'a'.*look-around", ["a: Annotated[str, Field(pattern='(?=x)')]"]),
        ("parameters", "parameter 'a'.*alias", ["a: Annotated[int, Field(alias='b')]"]),
        ("returns", "needs a return annotation", [""]),
        ("returns", "Any promises nothing", ["Any"]),
        ("returns", "annotation 'Nowhere' cannot be resolved", ["'Nowhere'"]),
        ("returns", "its return type.*Plain", ["Plain"]),
        ("returns", "its return type", ["Awaitable[int]", "NoReturn"]),
    ],
)
def test_a_signature_that_cannot_be_shown_to_a_model_is_refused(part: str, problem: str, sources: list[str]) -> None:
    for source in sources:
        with pytest.raises(DefinitionError, match=rf"^tool 'do'(?s:.*){problem}"):
            define(**{part: source})


@pytest.mark.spec("C39", "G5")
@pytest.mark.parametrize(
    ("problem", "defaults"),
    [
        ("valid integer", ["int = 'x'", "int = None", "int = True", "list[int] = ['x']", "Box = {'size': 'x'}"]),
        ("valid integer", ["Annotated[int, Field(default='x')]"]),
        ("greater than or equal to 3", ["Annotated[int, Field(ge=3)] = 2"]),
        ("not permitted", ["Box = {'size': 1, 'siez': 1}"]),
        ("Field required", ["Box = {}"]),
        ("(nan|inf|finite|not JSON)", ["float = float('nan')", "float = float('inf')"]),
        ("(surrogate|unicode)", ["str = '\\ud800'", "Annotated[str, Field(description='\\ud800')]"]),
        ("not JSON serializable", ["object = object()"]),
        ("a nested set", ["set[object] = {(1, frozenset({2, 3}))}", "dict[str, set[str]] = {'k': {'a', 'b'}}"]),
        ("a nested set", ["tuple[set[str], ...] = ({'a', 'b'},)", "Tagged = Tagged(tags={'a', 'b'})"]),
        ("a nested set", ["deque[frozenset[str]] = deque([frozenset({'a', 'b'})])"]),
    ],
)
def test_a_default_that_would_fail_at_the_call_is_refused_at_once(problem: str, defaults: list[str]) -> None:
    for default in defaults:
        with pytest.raises(DefinitionError, match=rf"^tool 'do', parameter 'a'(?s:.*){problem}"):
            define(f"b: int, a: {default}")


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    "returns",
    [
        *("AsyncIterator[int]", "AsyncIterator[Progress]", "AsyncIterator[Progress | int]", "AsyncIterator[Any]"),
        *("AsyncIterator[Progress | Reply]", "AsyncIterator[Reply[int] | Reply[str]]", "AsyncIterator"),
        *("AsyncIterator[Progress | Reply[int] | None]", "Reply[int]", "int", "Any"),
    ],
)
def test_a_stream_emits_progress_and_one_sort_of_reply_or_is_refused(returns: str) -> None:
    with pytest.raises(DefinitionError, match=r"returns AsyncIterator\[Progress \| Reply\[T\]\]"):
        define(returns=returns, **STREAM)


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    ("returns", "more", "problem"),
    [
        ("AsyncIterator[Reply[Any]]", STREAM, "Any promises nothing"),
        ("AsyncIterator[Reply[Plain]]", STREAM, "its return type.*Plain"),
        ("Iterator[int]", {"body": "yield a"}, "an async generator, not a plain one"),
        ("int", {"body": "yield a"}, "an async generator, not a plain one"),
        ("AsyncIterator[Reply[int]]", {"prefix": "async "}, "yields"),
    ],
)
def test_a_stream_that_could_not_run_is_refused(returns: str, more: dict[str, str], problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        define(returns=returns, **more)


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    ("returns", "more", "shape", "output"),
    [
        ("int", {}, "sync", "integer"),
        ("None", {}, "sync", "null"),
        ("int", {"prefix": "async "}, "async", "integer"),
        ("AsyncIterator[Progress | Reply[int]]", STREAM, "stream", "integer"),
        ("AsyncIterator[Reply[str] | Progress]", STREAM, "stream", "string"),
        ("AsyncIterator[Reply[None]]", STREAM, "stream", "null"),
        ("AsyncGenerator[Progress | Reply[int], None]", STREAM, "stream", "integer"),
        ("AsyncIterator[Progress | Reply[int]]", {}, "stream", "integer"),
    ],
)
def test_the_shape_follows_the_function(returns: str, more: dict[str, str], shape: str, output: str) -> None:
    definition = define(returns=returns, **more)
    assert definition.shape == shape
    assert definition.output.json_schema["type"] == output


@pytest.mark.parametrize(
    "name",
    [
        *("schema", "copy", "json", "dict", "validate", "model_config", "model_fields", "model_dump", "self", "cls"),
        *("keys", "items", "values", "get", "properties", "required", "title", "default", "type", "handler", "call"),
        *("args", "kwargs", "additionalProperties", "_private", "__dunder", "__pydantic_config__", "__annotations__"),
        *("ctx", "name", "tool"),
    ],
)
def test_a_parameter_may_have_any_name(name: str) -> None:
    definition = define(f"{name}: int, other: int = 2", body=f"return {name}")
    assert definition.parameters == (name, "other")
    assert definition.arguments.json_schema == {
        "type": "object",
        "properties": {name: {"type": "integer"}, "other": {"type": "integer", "default": 2}},
        "required": [name],
        "additionalProperties": False,
    }
    assert definition.handler(**definition.arguments.check({name: 7})) == 7
    assert definition.arguments.check_json(f'{{"{name}": 7, "other": 3}}'.encode()) == {name: 7, "other": 3}


def test_parameters_may_be_keyword_only() -> None:
    definition = define("a: int, *, b: str = 'x'")
    assert definition.parameters == ("a", "b")
    assert definition.handler(**definition.arguments.check({"a": 1})) == 1


@pytest.mark.spec("K4")
@pytest.mark.parametrize("parameters", ["ctx: Context, a: int", "world: Context, /, a: int", "c: 'Context', *, a: int"])
def test_a_leading_context_is_injected_and_never_shown(parameters: str) -> None:
    definition = define(parameters)
    assert definition.takes_context
    assert definition.parameters == ("a",)
    assert list(definition.arguments.json_schema["properties"]) == ["a"]
    assert not define("a: int").takes_context


@pytest.mark.parametrize("wrong", [5, "x", object(), Box(size=1), Box, functools.partial(Box, size=1), int, len])
def test_what_is_no_function_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=r"^(@tool takes a function; got|tool 'do')"):
        tool(name="do", description="Do.")(wrong)


def wrapped(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    return wrapper


def test_a_wrapped_function_is_read_through_its_wrapper() -> None:
    @functools.wraps(inner := function("ctx: Context, a: int = 3", prefix="async "))
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await inner(*args, **kwargs)

    definition = tool(wrapper)
    assert (definition.name, definition.shape, definition.parameters) == ("do", "async", ("a",))
    assert tool(wrapped(function(returns="AsyncIterator[Reply[int]]", **STREAM))).shape == "stream"


def test_an_async_function_in_a_sync_wrapper_is_refused() -> None:
    with pytest.raises(DefinitionError, match="tool 'do': an async function is wrapped in a sync one"):
        tool(wrapped(function(prefix="async ")))


@pytest.mark.spec("G11")
@pytest.mark.parametrize(
    "annotation",
    [
        *("Iterable", "Iterable[int]", "Iterator[int]", "Generator[int, None, None]", "AsyncIterable[int]"),
        *("AsyncIterator[int]", "AsyncGenerator[int, None]", "Annotated[Iterable[int], Field(description='x')]"),
        *("list[Iterable[int]]", "Iterable[int] | None", "dict[str, list[Iterator[int]]]"),
    ],
)
def test_a_parameter_that_reading_uses_up_is_refused_with_advice(annotation: str) -> None:
    with pytest.raises(DefinitionError, match=r"tool 'do', parameter 'a': .* use list or Sequence"):
        define(f"b: int, a: {annotation}")


def test_a_sequence_is_no_lazy_type() -> None:
    assert define("a: Sequence[int]", "list[int]").arguments.check_json(b'{"a": [1]}') == {"a": [1]}


def test_a_type_that_only_a_function_knows_is_refused() -> None:
    class Local(BaseModel):
        x: int

    def do(a: Local) -> int:
        """Do."""
        return a.x

    with pytest.raises(DefinitionError, match="'Local' cannot be resolved"):
        tool(do)
