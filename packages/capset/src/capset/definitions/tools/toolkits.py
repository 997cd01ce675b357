"""Groups of tools with their own policies, hooks and instructions; they nest, and may be made at run time."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict, cast, overload

from typing_extensions import Unpack

from capset.definitions.callables import checked_function
from capset.definitions.governance.hooks import Hooks, checked_hooks
from capset.definitions.governance.policies import Policy, distinct_policies
from capset.definitions.identity import Definition
from capset.definitions.names import TOOLKIT, checked_list, checked_name, checked_texts
from capset.definitions.principals import Principal
from capset.definitions.tools.definition import AnyTool, Tool
from capset.definitions.tools.options import refuse_unknown
from capset.errors import DefinitionError, ToolNameConflict

MAX_TOOLKIT_LEVELS: Final = 50
"""The maximum nesting depth of toolkits."""


@dataclass(frozen=True, slots=True)
class ToolkitContext:
    """The input of a dynamic toolkit: the same as that of policies, and the labels of the evaluation.

    ``env`` comes from the server, and its values are the host's own. ``namespace``, ``agent_id`` and ``agent_name`` are
    the host's labels.
    """

    env: Mapping[str, Any]
    principal: Principal
    namespace: str | None = None
    agent_id: str | None = None
    agent_name: str | None = None


class ToolkitOptions(TypedDict, total=False):
    """The options of every toolkit."""

    instructions: Iterable[str]
    """Text for the model while the toolkit is in play."""
    policies: Iterable[Policy]
    """Policies that apply to everything inside."""
    hooks: Hooks | None
    """Notified of the policies and the calls of everything inside; not part of the hash."""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, init=False)
class Toolkit(Definition):
    """A group of tools and other toolkits, with shared settings. Frozen, and compared by identity.

    ``members`` are in the order of their declaration. Its ``policies`` apply to everything inside; a denial also
    removes its ``instructions``.
    """

    name: str
    members: tuple[Member, ...]
    instructions: tuple[str, ...]
    policies: tuple[Policy, ...]
    hooks: Hooks
    levels: int
    """The depth to which toolkits nest in it, itself included."""

    def __init__(self, name: str, members: Iterable[Member] = (), **options: Unpack[ToolkitOptions]) -> None:
        """Check and freeze every argument. Raises ``DefinitionError``, naming the toolkit."""
        refuse_unknown(Toolkit.__init__, options, ToolkitOptions)
        owner = f"toolkit {name!r}"
        store = object.__setattr__
        store(self, "name", checked_name("a toolkit's name", name, TOOLKIT))
        store(self, "members", checked_members(owner, members))
        _store_options(self, owner, options)
        store(
            self,
            "levels",
            1 + max((member.levels for member in self.members if isinstance(member, Toolkit)), default=0),
        )
        if self.levels > MAX_TOOLKIT_LEVELS:
            raise DefinitionError(f"{owner}: toolkits are nested more than {MAX_TOOLKIT_LEVELS} levels deep")
        distinct_tools(owner, self.members)

    def __repr__(self) -> str:
        return f"Toolkit({self.name!r})"


MakeMembers = Callable[[ToolkitContext], "Iterable[Member] | Awaitable[Iterable[Member]]"]


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, init=False)
class DynamicToolkit(Definition):
    """A toolkit whose members are made when a snapshot is evaluated; no static hash covers them.

    If its own policies deny, its members are not made at all. Made by ``@dynamic_toolkit``.
    """

    name: str
    make: MakeMembers
    instructions: tuple[str, ...]
    policies: tuple[Policy, ...]
    hooks: Hooks

    def __init__(self, name: str, make: MakeMembers, **options: Unpack[ToolkitOptions]) -> None:
        """Check and freeze every argument. Raises ``DefinitionError``, naming the toolkit."""
        refuse_unknown(DynamicToolkit.__init__, options, ToolkitOptions)
        owner = f"dynamic toolkit {name!r}"
        store = object.__setattr__
        store(self, "name", checked_name("a dynamic toolkit's name", name, TOOLKIT))
        store(self, "make", checked_function(owner, make, "the ToolkitContext"))
        _store_options(self, owner, options)

    def __repr__(self) -> str:
        return f"DynamicToolkit({self.name!r})"


Member = Tool[..., Any] | Toolkit | DynamicToolkit
"""The entries of ``tools=`` and of a toolkit."""
AnyToolkit = Toolkit | DynamicToolkit


@overload
def dynamic_toolkit(make: MakeMembers, /) -> DynamicToolkit: ...
@overload
def dynamic_toolkit(
    *, name: str | None = None, **options: Unpack[ToolkitOptions]
) -> Callable[[MakeMembers], DynamicToolkit]: ...
def dynamic_toolkit(
    make: MakeMembers | None = None, /, *, name: str | None = None, **options: Unpack[ToolkitOptions]
) -> DynamicToolkit | Callable[[MakeMembers], DynamicToolkit]:
    """Make a dynamic toolkit from a function ``(ToolkitContext) -> tools and toolkits``, sync or async.

    Its name is the function's if left out; the options are those of ``ToolkitOptions``. Raises ``DefinitionError`` if
    the function does not take exactly one argument.
    """
    refuse_unknown(dynamic_toolkit, options, ToolkitOptions)

    def build(function: MakeMembers) -> DynamicToolkit:
        toolkit_name = getattr(function, "__name__", "toolkit") if name is None else name
        return DynamicToolkit(toolkit_name, function, **options)

    return build if make is None else build(make)


def _store_options(toolkit: AnyToolkit, owner: str, options: ToolkitOptions) -> None:
    store = object.__setattr__
    store(toolkit, "instructions", checked_texts(f"{owner}: instructions", options.get("instructions", ())))
    store(toolkit, "policies", distinct_policies(owner, options.get("policies", ())))
    store(toolkit, "hooks", checked_hooks(owner, options.get("hooks")))


def checked_members(owner: str, members: Iterable[object]) -> tuple[Member, ...]:
    """Return each member once, in order. Raises ``DefinitionError`` for anything else, starting with ``owner``."""
    distinct: dict[Member, None] = {}
    names: dict[str, AnyToolkit] = {}
    for entry in checked_list(f"{owner}: tools", members):
        if not isinstance(entry, Tool | Toolkit | DynamicToolkit):
            raise DefinitionError(f"{owner}: {entry!r} is not a Tool; {_advice(entry)}")
        member = cast("Member", entry)
        distinct[member] = None
        if isinstance(member, AnyToolkit) and names.setdefault(member.name, member) is not member:
            raise ToolNameConflict(f"{owner}: two different toolkits are named {member.name!r}; give one another name")
    return tuple(distinct)


def _advice(entry: object) -> str:
    """Explain what to use in place of an entry that is not a tool."""
    if inspect.isclass(entry):
        return (
            "neither a class nor its objects are tools: make the tool once, at the top of a module, with @tool on a "
            "function or with Tool.from_processor(…), and put that constant here"
        )
    if not callable(entry):
        return "tools are made by @tool and Tool.from_processor(…)"
    advice = "put @tool on the function"
    try:
        inspect.signature(entry).bind()
    except (TypeError, ValueError):
        return advice
    return f"{advice}; or if it makes a tool, call it once, at the top of a module, and put that constant here"


def distinct_tools(owner: str, members: Iterable[Member]) -> tuple[AnyTool, ...]:
    """Return every tool among members and inside their toolkits, each once, in traversal order.

    Raises ``ToolNameConflict`` for two different tools with one name.
    """
    by_name: dict[str, AnyTool] = {}
    for tool in tools_in(members):
        if by_name.setdefault(tool.name, tool) is not tool:
            raise ToolNameConflict(f"{owner}: two different tools are named {tool.name!r}; rename one with name=")
    return tuple(by_name.values())


def tools_in(members: Iterable[Member]) -> Iterator[AnyTool]:
    """Yield the tools among members and inside their toolkits; dynamic toolkits have none yet."""
    for member in members:
        if isinstance(member, Tool):
            yield member
        elif isinstance(member, Toolkit):
            yield from tools_in(member.members)


def toolkits_in(members: Iterable[Member]) -> Iterator[AnyToolkit]:
    """Yield the toolkits among members and inside each other, outer ones first; dynamic ones have no members yet."""
    for member in members:
        if isinstance(member, AnyToolkit):
            yield member
        if isinstance(member, Toolkit):
            yield from toolkits_in(member.members)


def policies_in(members: Iterable[Member]) -> Iterator[Policy]:
    """Yield the policies of members and of everything inside them, outer ones first."""
    for member in members:
        yield from member.policies
        if isinstance(member, Toolkit):
            yield from policies_in(member.members)
