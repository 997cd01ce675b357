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

from capset import Agent, Principal, Tool, compose, evaluate, tool
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

class Thing:
    async def method(self, a: int) -> int:
        """Give back."""
        return a

    __call__ = method

wrapped, method, thing = wrapping(plain), Thing().method, Thing()

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


def hash_of(name: str, text: str) -> str:
    """Return the hash of a module's code."""
    return digest(code_payload({name: hashlib.sha256(text.encode()).hexdigest()}))


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a third party's module, one file."""
    (tmp_path / "tinyhands.py").write_text(WRITTEN, encoding="utf-8")
    return fresh_import("tinyhands", tmp_path, monkeypatch)


COMPILED = "it is compiled, and has no source"


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
    assert code.hash == hash_of("tinyhands.py", WRITTEN)


def test_a_callable_object_and_wrappers_that_form_a_circle(theirs: Any) -> None:
    """Of an object its class is what was written."""
    theirs.plain.__wrapped__, theirs.from_params.__wrapped__ = theirs.from_params, theirs.plain
    own_tool = tool(name="own", description="Own.")(theirs.block)
    fields = {name: getattr(own_tool, name) for name in Tool.__dataclass_fields__}
    for function in (theirs.thing, theirs.plain):
        assert code_of(Tool(**{**fields, "handler": function})).name == "tinyhands.py"


async def test_tools_that_a_toolkit_makes(theirs: Any) -> None:
    composition = compose(Agent("a", tools=[DynamicToolkit("kit", lambda context: [tool(theirs.plain)])]))
    snapshot = await evaluate(composition, principal=Principal("ada"))
    assert [code_of(installed.tool).name for installed in snapshot.tools.values()] == ["tinyhands.py"]


def test_a_handler_of_a_configuration_file_is_its_file(tmp_path: Path) -> None:
    """Each time that it is read: another content is other code, in the same process."""
    (tmp_path / "handlers").mkdir()
    for text in ("def handler(params): return 1\n", "def handler(params): return 2\n"):
        (tmp_path / "handlers" / "act.py").write_text(text, encoding="utf-8")
        code = code_of(from_json(Handlers(tmp_path).resolve("./handlers/act.py").value))
        assert (code.kind, code.name, code.hash) == ("module", "act.py", hash_of("act.py", text))


def typed_in() -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    builtins.exec(compile("def handler(params): return params", "<stdin>", "exec"), namespace)
    return namespace["handler"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: from_json(operator.itemgetter("a")), COMPILED),
        (lambda: from_json(len), COMPILED),
        (lambda: from_json(functools.partial(operator.itemgetter("a"))), COMPILED),
        (lambda: processor(dict), "is part of the interpreter, and has no source file"),
        (lambda: from_json(typed_in()), "it was typed in, or made at run time (<stdin>), and has no source file"),
    ],
)
def test_what_is_compiled_or_typed_in_has_none(make: Callable[[], AnyTool], reason: str) -> None:
    code = code_of(make())
    assert (code.hash, code.kind, code.covers) == (None, None, None)
    assert str(code.reason).endswith(reason)


def test_a_block_of_several_functions_has_none(theirs: Any) -> None:
    routes = {"a": handler()(theirs.block)}
    code = code_of(as_tool(Router("way", lambda text: "a", routes=routes, input=str, description="Go.")))
    assert (code.hash, code.reason) == (None, "it runs the router 'way', whose code is in more than one place")


@pytest.mark.realtime
def test_a_script(tmp_path: Path) -> None:
    """Run as a file, as a module, and from standard input."""
    imports = "from capset import tool\nfrom capset.evaluation.code import code_of"
    told = "code = code_of(tool(plain))\nprint(code.hash, code.kind, code.name or code.reason)"
    text = f"{imports}\n{WRITTEN}\n{told}"
    (tmp_path / "tinymain.py").write_text(text, encoding="utf-8")
    for arguments in (["tinymain.py"], ["-m", "tinymain"]):
        printed = subprocess.check_output([sys.executable, *arguments], cwd=tmp_path, text=True)
        assert printed == f"{hash_of('tinymain.py', text)} module tinymain.py\n"
    printed = subprocess.check_output([sys.executable], input=text, cwd=tmp_path, text=True)
    assert printed.startswith("None None it was typed in")
