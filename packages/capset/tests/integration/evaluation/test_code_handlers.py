"""The code of handlers, in all the ways that they are written; and handlers that have none."""

from __future__ import annotations

import builtins
import functools
import hashlib
import operator
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from capset import Agent, Principal, Tool, ToolkitContext, compose, evaluate, tool
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.processors import handles, yields
from capset.definitions.tools.schema_tools import schema_tool
from capset.definitions.tools.toolkits import DynamicToolkit
from capset.evaluation.code import code_of
from capset.fingerprint.canonical import digest
from capset.fingerprint.payloads import code_payload
from capset.flows import Router, as_tool, handler
from capset_connect.config_file.handlers import Handlers
from tests.distributions import fresh_import

pytestmark = pytest.mark.spec("F35")
WRITTEN = '''
import functools

async def plain(a: int) -> int:
    """Give back."""
    return a

def wrapping(function):
    @functools.wraps(function)
    async def wrapper(*arguments, **named):
        return await function(*arguments, **named)
    return wrapper

wrapped = wrapping(plain)

async def two(a: int, b: int) -> int:
    """Give back."""
    return a

class Thing:
    async def method(self, a: int) -> int:
        """Give back."""
        return a

    async def __call__(self, a: int) -> int:
        """Give back."""
        return a

method, thing = Thing().method, Thing()

def from_params(params, context):
    return params

class OfParams:
    def __call__(self, params):
        return params

def made(params):
    def inner(params):
        return params
    return inner

async def handle(message, emit, ctx): ...
async def generate(message, ctx):
    yield message
def factory():
    return handle
class Factory:
    async def __call__(self, messages, emit, ctx): ...
async def block(text: str) -> str:
    """Shout."""
    return text
'''


class Ask(BaseModel):
    """Ask."""

    kind: Literal["query"] = "query"
    type: Literal["Tiny.Ask"] = "Tiny.Ask"
    data: str


class Answer(BaseModel):
    """Answer."""

    kind: Literal["reply"] = "reply"
    type: Literal["Tiny.Answer"] = "Tiny.Answer"
    data: str


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a third party's module, one file."""
    (tmp_path / "tinyhands.py").write_text(WRITTEN, encoding="utf-8")
    return fresh_import("tinyhands", tmp_path, monkeypatch)


def from_json(function: Callable[..., Any]) -> AnyTool:
    return schema_tool(name="own", parameters={}, handler=function, description="Own.")


def processor(factory: Callable[..., Any]) -> AnyTool:
    return Tool.from_processor(inbound=Ask, outbound=Answer, factory=factory, description="Answer.", name="own")


@pytest.mark.parametrize(
    "make",
    [
        lambda theirs: tool(theirs.plain),
        lambda theirs: tool(theirs.wrapped),
        lambda theirs: tool(theirs.method),
        lambda theirs: from_json(theirs.from_params),
        lambda theirs: from_json(theirs.OfParams()),
        lambda theirs: from_json(functools.partial(theirs.from_params, context=None)),
        lambda theirs: from_json(theirs.made({})),
        lambda theirs: from_json(functools.lru_cache(theirs.OfParams().__call__)),
        lambda theirs: processor(theirs.factory),
        lambda theirs: processor(theirs.Factory),
        lambda theirs: processor(handles(theirs.handle)),
        lambda theirs: processor(handles(functools.partial(theirs.handle))),
        lambda theirs: processor(yields(theirs.generate)),
        lambda theirs: as_tool(handler()(theirs.block)),
    ],
)
def test_it_is_that_of_the_function_that_somebody_wrote(theirs: Any, make: Callable[[Any], AnyTool]) -> None:
    code = code_of(make(theirs))
    assert (code.kind, code.name, code.reason) == ("module", "tinyhands.py", None)
    assert code.hash == digest(code_payload({"tinyhands.py": hashlib.sha256(WRITTEN.encode()).hexdigest()}))


def test_a_callable_object(theirs: Any) -> None:
    """Its class is what was written, and not the object."""
    own_tool = tool(name="own", description="Own.")(theirs.plain)
    assert code_of(Tool(**{**_fields(own_tool), "handler": theirs.thing})).name == "tinyhands.py"


async def test_tools_that_a_toolkit_makes(theirs: Any) -> None:
    def make(context: ToolkitContext) -> list[AnyTool]:
        return [tool(theirs.plain)]

    composition = compose(Agent("a", tools=[DynamicToolkit("kit", make)]))
    snapshot = await evaluate(composition, principal=Principal("ada"))
    (code,) = [code_of(installed.tool) for installed in snapshot.tools.values()]
    assert code.name == "tinyhands.py"


def test_a_handler_of_a_configuration_file_is_its_file(tmp_path: Path) -> None:
    """Each time that it is read: another content is other code, in the same process."""
    (tmp_path / "handlers").mkdir()
    file = tmp_path / "handlers" / "act.py"
    hashes: list[str | None] = []
    for text in ("def handler(params): return 1\n", "def handler(params): return 2\n"):
        file.write_text(text, encoding="utf-8")
        code = code_of(from_json(Handlers(tmp_path).resolve("./handlers/act.py").value))
        assert (code.kind, code.name) == ("module", "act.py")
        assert code.hash == digest(code_payload({"act.py": hashlib.sha256(text.encode()).hexdigest()}))
        hashes.append(code.hash)
    assert len(set(hashes)) == 2


def typed_in() -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    builtins.exec(compile("def handler(params): return params", "<stdin>", "exec"), namespace)
    return namespace["handler"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: from_json(operator.itemgetter("a")), "it is compiled, and has no source"),
        (lambda: from_json(len), "it is compiled, and has no source"),
        (lambda: from_json(functools.partial(operator.itemgetter("a"))), "it is compiled, and has no source"),
        (lambda: processor(dict), "is part of the interpreter, and has no source file"),
        (lambda: from_json(typed_in()), "it was typed in, or made at run time (<stdin>), and has no source file"),
    ],
)
def test_what_is_compiled_or_typed_in_has_none(make: Callable[[], AnyTool], reason: str) -> None:
    code = code_of(make())
    assert (code.hash, code.kind, code.covers) == (None, None, None)
    assert code.reason is not None
    assert code.reason.endswith(reason)


def test_a_block_of_several_functions_has_none(theirs: Any) -> None:
    block = handler()(theirs.block)
    code = code_of(as_tool(Router("way", lambda text: "a", routes={"a": block}, input=str, description="Go.")))
    assert code.hash is None
    assert code.reason == "it runs the router 'way', whose code stands in more than one place"


def test_wrappers_that_form_a_circle(theirs: Any) -> None:
    theirs.plain.__wrapped__, theirs.two.__wrapped__ = theirs.two, theirs.plain
    own_tool = tool(name="own", description="Own.")(theirs.block)
    assert code_of(Tool(**{**_fields(own_tool), "handler": theirs.plain})).name == "tinyhands.py"


@pytest.mark.realtime
def test_a_script(tmp_path: Path) -> None:
    """Run as a file, as a module, and from standard input."""
    lines = [
        "from capset import tool",
        "from capset.evaluation.code import code_of",
        WRITTEN,
        "code = code_of(tool(plain))",
    ]
    text = "\n".join([*lines, "print(code.hash, code.kind, code.name or code.reason)"])
    (tmp_path / "tinymain.py").write_text(text, encoding="utf-8")
    expected = digest(code_payload({"tinymain.py": hashlib.sha256(text.encode()).hexdigest()}))
    for arguments in (["tinymain.py"], ["-m", "tinymain"]):
        printed = subprocess.check_output([sys.executable, *arguments], cwd=tmp_path, text=True)
        assert printed.split(maxsplit=1) == [expected, "module tinymain.py\n"]
    printed = subprocess.check_output([sys.executable], input=text, cwd=tmp_path, text=True)
    assert printed.startswith("None None it was typed in")


def _fields(definition: AnyTool) -> dict[str, Any]:
    return {name: getattr(definition, name) for name in Tool.__dataclass_fields__}
