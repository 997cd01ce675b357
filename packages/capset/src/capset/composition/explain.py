"""The contributors of everything in a composition, with preset and path (spec 1, C40)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from capset.composition.installation import InstalledToolkit
from capset.composition.merge import MergedParts
from capset.composition.sources import ContributionSource
from capset.definitions.model_context import ContextEntry

Surface = Literal["tool", "toolkit", "resource", "state", "target", "instruction", "context", "file", "policy"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One item of a composition: its kind, its name, and its contributor.

    ``name`` is the name of a tool or a target, a file's path or a policy's id. Toolkits are prefixed with the enclosing
    ones (``outer.inner``); resources and state fields with their scope (``session.notes``, or ``sequencer.x`` for a
    sequencer's own state). An instruction is named by its first line; context by its keys, its text or the name of its
    function. ``within`` lists the blocks around the owner, root first.
    """

    surface: Surface
    name: str
    source: ContributionSource
    within: tuple[str, ...] = ()

    def __str__(self) -> str:
        inside = f", in {' → '.join((*self.within, self.source.path[0]))}" if self.within else ""
        return f"{self.surface} {self.name}: from {self.source}{inside}"


def explain(merged: MergedParts, within: tuple[str, ...] = ()) -> Iterator[Explanation]:
    """Yield everything in a merged block, in order; ``within`` lists the blocks around it."""
    return (Explanation(surface, name, source, within) for surface, name, source in _items(merged))


def _items(merged: MergedParts) -> Iterator[tuple[Surface, str, ContributionSource]]:
    for member in merged.members:
        is_toolkit = isinstance(member, InstalledToolkit)
        surface, name = ("toolkit", ".".join(member.path)) if is_toolkit else ("tool", member.name)
        yield surface, name, member.source
    for (scope, name), resource in merged.resources.items():
        yield "resource", f"{scope}.{name}", resource.source
    for scope, state in merged.states.items():
        for name, source in state.fields.items():
            yield "state", f"{scope}.{name}", source
    if merged.sequencer_state is not None:
        for name, source in merged.sequencer_state.fields.items():
            yield "state", f"sequencer.{name}", source
    for name, target in merged.targets.items():
        yield "target", name, target.source
    for text in merged.instructions:
        yield "instruction", text.value.splitlines()[0], text.source
    for entry in merged.context:
        yield "context", context_name(entry.value), entry.source
    for path, content in merged.files.items():
        yield "file", path, content.source
    for name, policy in merged.policies.items():
        yield "policy", name, policy.source


def context_name(entry: ContextEntry) -> str:
    """Return a name for a context entry: that of its function, its keys, or the beginning of its text."""
    match entry.value:
        case _ if entry.function is not None:
            return f"{entry.name}()"
        case str() as text:
            return text.strip().partition("\n")[0][:60]
        case Mapping() as mapping:
            return ", ".join(map(str, mapping))
        case other:
            return type(other).__name__
