"""The types of ``ctx.cap``, written for type checkers (spec 1, C41)."""

from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, Capability, Context
from capset.ext import helper_types

pytestmark = pytest.mark.spec("C41")


class Notes:
    """Helpers whose factory is their class."""

    def __init__(self, ctx: Context) -> None:
        self.owner = ctx.principal.id

    async def add(self, text: str) -> str:
        return f"{self.owner}: {text}"


def counts(ctx: Context) -> dict[str, list[Notes] | None]:
    """Return helpers of a type with arguments."""
    return {}


def local(ctx: Context) -> Nowhere:  # pyright: ignore[reportUndefinedVariable]  # noqa: F821  # as where it is imported for type checkers alone
    """Return helpers of a type that cannot be had."""


NOTES: Capability[Notes] = Capability("notes", helpers=Notes)


def test_every_helper_has_the_type_that_its_factory_declares() -> None:
    uses = [
        NOTES,
        Capability("storage:session", helpers=counts),
        Capability("property", helpers=lambda ctx: ctx.use(NOTES)),
        Capability("local", helpers=local),
        Capability("none"),
    ]
    source = helper_types(Agent("help desk-2", uses=uses)).replace(f"_{__name__.replace('.', '_')}", "_own")
    assert source.replace(__name__, "own") == (
        '''\
"""The helpers of the agent help desk-2, for type checkers. Written by ``capset.ext.helper_types``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

if TYPE_CHECKING:
    import builtins as _builtins
    import own as _own


class HelpDesk2Helpers(Protocol):
    """``ctx.cap`` of a ``Context[HelpDesk2Helpers]``."""

    @property
    def notes(self) -> _own.Notes: ...

    @property
    def local(self) -> Any: ...

    @overload
    def __getitem__(self, name: Literal["notes"], /) -> _own.Notes: ...

    @overload
    def __getitem__(self, name: Literal["storage:session"], /) -> '''
        "_builtins.dict[_builtins.str, _builtins.list[_own.Notes] | None]: ..."
        """

    @overload
    def __getitem__(self, name: Literal["property"], /) -> Any: ...

    @overload
    def __getitem__(self, name: Literal["local"], /) -> Any: ...
"""
    )


@pytest.mark.parametrize("uses", [[], [NOTES], [NOTES, Capability("other", helpers=counts)]])
def test_the_source_runs_and_imports_nothing_but_for_type_checkers(uses: list[Any]) -> None:
    names: dict[str, Any] = {}
    exec(helper_types(Agent("7th", uses=uses)), names)
    assert names["Agent7thHelpers"].__doc__ == "``ctx.cap`` of a ``Context[Agent7thHelpers]``."
    assert not [name for name in names if "tests" in name]
