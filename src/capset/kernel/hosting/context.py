"""The context of a turn: layers of mappings and resolvers, merged by key, where the later wins (spec 2, F24).

It is the host's own, for ``run`` and hooks. What a model sees is the context that agents and capabilities declare.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, cast

from capset.definitions.names import listed, text_keyed
from capset.errors import ContextError, DefinitionError
from capset.evaluation.telling import name_of
from capset.kernel.hosting.arity import check_arity

Resolver = Callable[[Any, Mapping[str, Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""A function, sync or async, of a turn's input and of the context so far, which is read-only; gives what it adds."""
Entry = Mapping[str, Any] | Resolver
ContextLayer = Entry | Sequence[Entry]


def checked_layer(owner: str, layer: ContextLayer | None) -> tuple[Entry, ...]:
    """Return a layer's mappings, copied, and resolvers, in order. Raises ``DefinitionError`` for anything else."""
    if layer is None:
        return ()
    if isinstance(layer, Mapping) or callable(layer):
        return (_checked(owner, cast("object", layer)),)
    return tuple(_checked(owner, entry) for entry in listed(f"{owner}: context", layer))


async def merge_context(entries: Iterable[Entry], input: Any) -> Mapping[str, Any]:
    """Return the merge of all entries, read-only. Nothing inside a value is merged.

    Raises ``ContextError`` for a resolver that gives no mapping of text keys, and whatever a resolver raises.
    """
    merged: Mapping[str, Any] = MappingProxyType({})
    for entry in entries:
        given = await _resolved(entry, input, merged) if callable(entry) else entry
        merged = MappingProxyType({**merged, **given})  # what a resolver was shown stays as it was
    return merged


async def _resolved(resolver: Resolver, input: Any, so_far: Mapping[str, Any]) -> Mapping[str, Any]:
    given: object = resolver(input, so_far)
    if isawaitable(given):
        given = await given
    try:
        return text_keyed(f"the context resolver {name_of(resolver)}: what it gives", given)
    except DefinitionError as error:
        raise ContextError(error.message, hint="a resolver gives a mapping of names to values, {} for none") from None


def _checked(owner: str, entry: object) -> Entry:
    if isinstance(entry, Mapping):
        return text_keyed(f"{owner}: context", cast("object", entry))
    if not callable(entry):
        raise DefinitionError(
            f"{owner}: context is a mapping, a resolver (input, context so far) -> mapping, or a list of these; "
            f"got {entry!r:.80}"
        )
    check_arity(f"{owner}: a context resolver", entry, "input", "context so far")
    return cast("Resolver", entry)
