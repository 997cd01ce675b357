"""What a function must say of itself before it can be a tool."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from typing import Annotated, Any, NoReturn

import pytest
from pydantic import BaseModel, Field

from capset import Context, DefinitionError, Progress, Reply, Tool, tool


class Plain:
    """A class that pydantic knows nothing of."""


class Sized(BaseModel):
    size: int


class Tagged(BaseModel):
    tags: set[str]


WORDS = {
    "Annotated": Annotated,
    "Any": Any,
    "AsyncGenerator": AsyncGenerator,
    "AsyncIterable": AsyncIterable,
    "AsyncIterator": AsyncIterator,
    "Awaitable": Awaitable,
    "Callable": Callable,
    "Context": Context,
    "Field": Field,
    "Generator": Generator,
    "Iterable": Iterable,
    "Iterator": Iterator,
    "NoReturn": NoReturn,
    "Plain": Plain,
    "Progress": Progress,
    "Reply": Reply,
    "Sequence": Sequence,
    "Sized": Sized,
    "Tagged": Tagged,
    "deque": deque,
}


def function(
    parameters: str = "a: int", returns: str = "int", body: str = "return a", **more: Any
) -> Callable[..., Any]:
    """Define a function from its source, as its author would have written it in a module of its own."""
    prefix = more.pop("prefix", "")
    source = f"{prefix}def do({parameters}){f' -> {returns}' if returns else ''}:\n    'Do.'\n    {body}\n"
    module = types.ModuleType("their_module")
    vars(module).update(WORDS)
    exec(source, vars(module))
    return module.do


def define(*source: str, **more: Any) -> Tool[..., Any]:
    return tool(function(*source, **more))


STREAM = {"prefix": "async ", "body": "yield Reply(a)"}


@pytest.mark.spec("K4", "G5")
@pytest.mark.parametrize(
    ("parameters", "returns", "problem"),
    [
        ("a", "int", "parameter 'a' needs a type annotation"),
        ("a: int", "", "needs a return annotation"),
        ("a: int", "Any", "Any promises nothing"),
        ("a: Any", "int", "parameter 'a': Any says nothing"),
        ("a: Annotated[Any, 'x']", "int", "parameter 'a': Any says nothing"),
        ("*a: int", "int", "parameter 'a': only parameters with a name"),
        ("**a: int", "int", "parameter 'a': only parameters with a name"),
        ("a: int, /", "int", "parameter 'a': only parameters with a name"),
        ("a: int, ctx: Context", "int", "parameter 'ctx': Context comes first"),
        ("a: int, *, ctx: Context", "int", "parameter 'ctx': Context comes first"),
        ("*, ctx: Context, a: int", "int", "parameter 'ctx': Context is passed by position"),
        ("*ctx: Context", "int", "parameter 'ctx': Context is passed by position"),
        ("**ctx: Context", "int", "parameter 'ctx': Context is passed by position"),
        ("ctx: Context | None, a: int", "int", "parameter 'ctx'"),
        ("a: 'Nowhere'", "int", "annotation 'Nowhere' cannot be resolved"),
        ("a: int", "'Nowhere'", "annotation 'Nowhere' cannot be resolved"),
        ("a: 'int or'", "int", "must be an expression"),
        ("a: 'Plain.nothing'", "int", "no attribute 'nothing'"),
        ("a: '1/0'", "int", "division"),
        ("b: int, a: Plain", "int", "parameter 'a'.*Plain"),
        ("b: int, a: list[Plain]", "int", "parameter 'a'.*Plain"),
        ("b: int, a: Callable[[], int]", "int", "parameter 'a'.*Callable"),
        ("a: 5", "int", "parameter 'a'"),
        ("a: Annotated[str, Field(pattern='(')]", "str", "parameter 'a'.*unclosed group"),
        ("a: Annotated[str, Field(pattern='(?=x)')]", "str", "parameter 'a'.*look-around"),
        ("a: Annotated[int, Field(alias='b')]", "int", "parameter 'a'.*alias"),
        ("a: int", "Plain", "its return type.*Plain"),
        ("a: int", "Awaitable[int]", "its return type"),
        ("a: int", "NoReturn", "its return type"),
    ],
)  # fmt: skip
def test_a_signature_that_cannot_be_shown_to_a_model_is_refused(parameters: str, returns: str, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem) as refused:
        define(parameters, returns)
    assert str(refused.value).startswith("tool 'do'")


@pytest.mark.spec("C39", "G5")
@pytest.mark.parametrize(
    ("default", "problem"),
    [
        ("int = 'x'", "valid integer"),
        ("int = None", "valid integer"),
        ("int = True", "valid integer"),
        ("Annotated[int, Field(ge=3)] = 2", "greater than or equal to 3"),
        ("Annotated[int, Field(default='x')]", "valid integer"),
        ("list[int] = ['x']", "valid integer"),
        ("Sized = {'size': 'x'}", "valid integer"),
        ("Sized = {'size': 1, 'siez': 1}", "not permitted"),
        ("Sized = {}", "Field required"),
        ("float = float('nan')", "nan|finite|not JSON"),
        ("float = float('inf')", "inf|finite|not JSON"),
        ("str = '\\ud800'", "surrogate|unicode"),
        ("Annotated[str, Field(description='\\ud800')]", "surrogate"),
        ("object = object()", "not JSON serializable"),
        ("set[object] = {(1, frozenset({2, 3}))}", "no set deeper down"),
        ("dict[str, set[str]] = {'k': {'a', 'b'}}", "no set deeper down"),
        ("tuple[set[str], ...] = ({'a', 'b'},)", "no set deeper down"),
        ("deque[frozenset[str]] = deque([frozenset({'a', 'b'})])", "no set deeper down"),
        ("Tagged = Tagged(tags={'a', 'b'})", "no set deeper down"),
    ],
)  # fmt: skip
def test_a_default_that_would_fail_at_the_call_is_refused_at_once(default: str, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem) as refused:
        define(f"b: int, a: {default}")
    assert str(refused.value).startswith("tool 'do'")


@pytest.mark.spec("C39")
@pytest.mark.parametrize("default", ["int = 'x'", "object = object()", "Sized = {'size': 'x'}"])
def test_a_wrong_default_is_refused_under_its_parameters_name(default: str) -> None:
    with pytest.raises(DefinitionError, match="parameter 'a'"):
        define(f"b: int = 1, a: {default}")


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    "returns",
    [
        "AsyncIterator[int]",
        "AsyncIterator[Progress]",
        "AsyncIterator[Progress | int]",
        "AsyncIterator[Progress | Reply]",
        "AsyncIterator[Reply[int] | Reply[str]]",
        "AsyncIterator[Progress | Reply[int] | None]",
        "AsyncIterator",
        "AsyncIterator[Any]",
        "Reply[int]",
        "int",
        "Any",
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


NAMES = (
    "schema", "copy", "json", "dict", "validate", "model_config", "model_fields", "model_dump", "self", "cls", "name",
    "keys", "items", "values", "get", "properties", "required", "title", "default", "type", "handler", "call", "tool",
    "args", "kwargs", "additionalProperties", "_private", "__dunder", "__pydantic_config__", "__annotations__", "ctx",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("wrong", [5, "x", object(), Sized(size=1), Sized, functools.partial(Sized, size=1)])
def test_what_is_no_function_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError):
        tool(name="do", description="Do.")(wrong)


def test_what_has_no_signature_is_refused() -> None:
    for wrong, problem in (
        (int, "@tool takes a function; got"),
        (len, "tool 'do'"),
        (5, "@tool takes a function; got"),
    ):
        with pytest.raises(DefinitionError, match=problem):
            tool(name="do", description="Do.")(wrong)  # pyright: ignore[reportArgumentType, reportCallIssue]


class Service:
    def bound(self, a: int) -> int:
        """Be bound."""
        return a + 1

    @staticmethod
    def static(a: int) -> int:
        """Be static."""
        return a + 2

    @classmethod
    def of_class(cls, a: int) -> int:
        """Be of the class."""
        return a + 3


def test_methods_are_tools_where_their_first_argument_is_bound() -> None:
    for number, method in enumerate((Service().bound, Service.static, Service.of_class), start=1):
        definition = tool(method)
        assert (definition.parameters, definition.handler(a=0)) == (("a",), number)
    with pytest.raises(DefinitionError, match="parameter 'self' needs a type annotation"):
        tool(Service.bound)


def test_a_wrapped_function_is_read_through_its_wrapper() -> None:
    @functools.wraps(inner := function("ctx: Context, a: int = 3", prefix="async "))
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await inner(*args, **kwargs)

    definition = tool(wrapper)
    assert (definition.name, definition.shape, definition.takes_context, definition.parameters) == (
        "do",
        "async",
        True,
        ("a",),
    )


def test_an_async_function_in_a_sync_wrapper_is_refused() -> None:
    @functools.wraps(inner := function(prefix="async "))
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    with pytest.raises(DefinitionError, match="tool 'do': an async function is wrapped in one that is not") as refused:
        tool(wrapper)
    assert "async def" in str(refused.value.hint)


def test_a_stream_may_come_through_a_sync_wrapper() -> None:
    @functools.wraps(inner := function(returns="AsyncIterator[Reply[int]]", **STREAM))
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    assert tool(wrapper).shape == "stream"


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
    with pytest.raises(DefinitionError, match=r"tool 'do', parameter 'a': what is .* use list or Sequence"):
        define(f"b: int, a: {annotation}")


def test_a_sequence_is_no_lazy_type() -> None:
    assert define("a: Sequence[int]", "list[int]").arguments.check_json(b'{"a": [1]}') == {"a": [1]}


def test_a_type_that_only_a_function_knows_is_refused_with_advice() -> None:
    class Local(BaseModel):
        x: int

    def do(a: Local) -> int:
        """Do."""
        return a.x

    with pytest.raises(DefinitionError, match="'Local' cannot be resolved") as refused:
        tool(do)
    assert "module level" in str(refused.value.hint)
