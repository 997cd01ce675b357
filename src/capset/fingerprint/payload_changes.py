"""Differences between two canonical payloads, field by field (spec 2, F31)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from capset.fingerprint.canonical import NotCanonical
from capset.fingerprint.changes import Change, Compare, compare, compare_lists, compare_members, compare_named
from capset.fingerprint.changes import compare_sets as sets
from capset.fingerprint.payloads import Payload
from capset.fingerprint.schema_changes import compare_schemas as schemas


def diff_payloads(before: Payload, after: Payload) -> tuple[Change, ...]:
    """Compare two canonical payloads of one kind, field by field; there is no change if their hashes are equal.

    Raises ``NotCanonical`` for anything but JSON data, and for too deep nesting.
    """
    members = {**_MEMBERS, "instructions": sets} if before.get("kind") == after.get("kind") == "tool" else _MEMBERS
    try:
        return tuple(compare_members("", before, after, lambda key: members.get(key, compare)))
    except RecursionError:
        raise NotCanonical("$", "nested too deeply, or a cycle") from None


def _member(key: str) -> Callable[[Any], str | None]:
    return lambda item: cast("Mapping[str, Any]", item).get(key) if isinstance(item, Mapping) else None


def _scoped(item: Any) -> str | None:
    """Return a resource's name prefixed with its scope, in the form of ``Composition.explain``."""
    scope, name = _member("scope")(item), _member("name")(item)
    return f"{scope}.{name}" if isinstance(scope, str) and isinstance(name, str) else None


def _choosing(**members: Compare) -> Compare:
    return partial(compare_members, choose=lambda key: members.get(key, compare))


_REFS: Final = partial(compare_named, name=_member("name"))
# Everything else is compared as any JSON data: in data from hosts and third parties, order is always significant.
_MEMBERS: Final[Mapping[str, Compare]] = {
    "permissions": sets,
    "policies": sets,
    "policyBindings": partial(compare_named, name=_member("id")),
    "members": _REFS,
    "tools": _REFS,
    "capabilities": _REFS,
    "uses": _REFS,
    "children": _REFS,
    "files": partial(compare_named, name=_member("path")),
    "resources": partial(compare_named, name=_scoped, item=_choosing(schema=schemas)),
    "presetPolicies": partial(compare_named, name=_member("preset"), item=_choosing(policies=sets, tools=sets)),
    "state": partial(compare_members, choose=lambda scope: partial(compare_lists, item=schemas)),
    "schema": schemas,
    "input": schemas,
    "output": schemas,
}
