"""From names and hashes to the references of a runtime hash (spec 2, F30)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from capset.errors import NotFound, unknown
from capset.fingerprint.canonical import digest
from capset.fingerprint.hashes import Ref, runtime_hash
from capset.schemas.schema import schema_of


def resolve_tool_refs(names: Iterable[str], hashes: Mapping[str, str]) -> tuple[Ref, ...]:
    """Return the references of some tools, by name. Raises ``NotFound`` for a name that has no hash."""
    refs: list[Ref] = []
    for name in names:
        if name not in hashes:
            raise NotFound(unknown("tool", name, hashes))
        refs.append(Ref(name, hashes[name]))
    return tuple(sorted(refs, key=lambda ref: (ref.name, ref.hash)))


def compute_runtime_hash(names: Iterable[str], hashes: Mapping[str, str]) -> str:
    """Return the runtime hash of the tools that have these names; ``hashes`` are as ``collect_tool_hashes`` has them.

    Raises ``NotFound`` as ``resolve_tool_refs`` does.
    """
    return runtime_hash(resolve_tool_refs(names, hashes))


def hash_object(value: Any) -> str:  # JSON data of every type
    """Return the hash of JSON data: 64 hexadecimal digits. Raises ``NotCanonical`` for anything else, with the path."""
    return digest(value)


def schema_hash_input(annotation: Any) -> Mapping[str, Any]:  # a type is of no narrower type
    """Return the JSON Schema of a type as a tool's hash covers it.

    Every ``required`` and ``enum`` is sorted, and generated titles are dropped (spec 2, F3).
    Raises ``DefinitionError`` for a type that has no schema.
    """
    return schema_of("this type", annotation, "validation").hash_input
