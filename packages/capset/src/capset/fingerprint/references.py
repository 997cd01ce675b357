"""Tool references and runtime hashes from names and hashes (spec 2, F30)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from capset.errors import NotFound, unknown
from capset.fingerprint.canonical import digest
from capset.fingerprint.hashes import Ref, runtime_hash
from capset.schemas.schema import schema_of


def resolve_tool_refs(names: Iterable[str], hashes: Mapping[str, str]) -> tuple[Ref, ...]:
    """Return the references of some tools, by name. Raises ``NotFound`` for a name without a hash."""
    refs: list[Ref] = []
    for name in names:
        if name not in hashes:
            raise NotFound(unknown("tool", name, hashes))
        refs.append(Ref(name, hashes[name]))
    return tuple(sorted(refs, key=lambda ref: (ref.name, ref.hash)))


def compute_runtime_hash(names: Iterable[str], hashes: Mapping[str, str]) -> str:
    """Return the runtime hash of the tools with these names; ``hashes`` are as returned by ``collect_tool_hashes``.

    Raises ``NotFound`` as ``resolve_tool_refs`` does.
    """
    return runtime_hash(resolve_tool_refs(names, hashes))


def hash_object(value: Any) -> str:  # JSON data of any type
    """Return the hash of JSON data: 64 hexadecimal digits. Raises ``NotCanonical`` for anything else, with the path."""
    return digest(value)


def schema_hash_input(annotation: Any) -> Mapping[str, Any]:  # types have no narrower annotation
    """Return the JSON Schema of a type as covered by a tool's hash.

    Every ``required`` and ``enum`` is sorted, and generated titles are dropped.
    Raises ``DefinitionError`` for a type without a schema.
    """
    return schema_of("this type", annotation, "validation").hash_input
