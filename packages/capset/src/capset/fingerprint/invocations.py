"""The invocation context: the subject of a turn, normalised so that equal ones give equal hashes (spec 2, F14)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from capset.errors import InvalidArguments
from capset.fingerprint.canonical import NotCanonical, canonical


def normalize_invocation(invocation: Mapping[str, Any] | None, allowlist: Iterable[str] = ()) -> dict[str, Any]:
    """Return an invocation context as plain JSON data, without absent values (``None``).

    ``allowlist`` names the top-level keys to include; if empty, all are included. A datetime becomes ISO 8601 UTC with
    milliseconds. Raises ``InvalidArguments``, naming the path, for everything else that is not JSON data: functions,
    class instances, cycles, keys that are not text, NaN, and a datetime without a time zone, which is ambiguous.
    """
    if invocation is None:
        return {}
    if not isinstance(invocation, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
        raise _invocation_error("$", f"an invocation is a mapping of names to values, not {type(invocation).__name__}")
    if isinstance(allowlist, str) or not isinstance(allowlist, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # as above
        raise InvalidArguments(f"an allowlist is a list of names; got {allowlist!r:.80}")
    allowed = frozenset(allowlist)
    chosen = {key: value for key, value in invocation.items() if not allowed or key in allowed}
    try:
        plain = cast("dict[str, Any]", _plain(chosen, "$", ()))
        canonical(plain)
    except NotCanonical as error:
        raise InvalidArguments(f"the invocation cannot be hashed: {error}") from None
    except RecursionError:
        raise _invocation_error("$", "it is nested too deeply") from None
    return plain


def _plain(value: Any, path: str, containers: tuple[int, ...]) -> Any:
    kind = cast("type[object]", type(value))
    if value is None or kind in (str, int, float, bool):
        return value
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise _invocation_error(path, f"the datetime {value} has no time zone")
        try:
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        except OverflowError:
            raise _invocation_error(path, f"the datetime {value} is outside the years 1 to 9999 in UTC") from None
    if id(value) in containers:
        raise _invocation_error(path, "it is a cycle")
    containers = (*containers, id(value))
    if kind in (list, tuple):
        items = cast("list[Any]", value)
        return [_plain(element, f"{path}[{index}]", containers) for index, element in enumerate(items)]
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        for key in members:
            if type(key) is not str:
                raise _invocation_error(path, f"a key must be text; got {key!r:.80}")
        return {
            key: _plain(member, f"{path}.{key}", containers) for key, member in members.items() if member is not None
        }
    name = getattr(value, "__qualname__", None)
    raise _invocation_error(
        path, f"{f'the function {name!r}' if name else f'an instance of {kind.__name__}'} is not JSON data"
    )


def _invocation_error(path: str, problem: str) -> InvalidArguments:
    return InvalidArguments(
        f"the invocation cannot be hashed: {path}: {problem}",
        hint="give plain data: texts, numbers, booleans, lists, mappings, datetimes",
    )
