"""Comparisons of a request with similar ones that were approved: arguments, hashes and their payloads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, cast

from capset.definitions.secrets import MASK
from capset.fingerprint.changes import Change
from capset_server.console.api import suppress_refusals
from capset_server.console.inbox_rows import present_arguments
from capset_server.console.markup import brief, counted, one_line
from capset_server.console.page import PageRequest

# REST returns JSON data, so functions that take parts of it take ``Any``.
_HASHES: Final = ("tool_hash", "code_hash", "runtime_hash")
_LINKED: Final = ("static_hash", "runtime_hash", "prompt_hash")
_LINKS: Final = 200
_EARLIER: Final = 10
_DISTINCT: Final = 2
"""How many distinct values of an argument are named."""
_LONGEST: Final = 200
"""The maximum length of a value that is compared, as it is shown."""
MOST: Final = 50
"""The maximum number of differences of one kind that are shown."""


@dataclass(frozen=True, slots=True)
class ArgumentHistory:
    """An argument of a request, and in words how its value compares with those that were approved.

    ``value`` is a short text of it, ``None`` if the argument is absent.
    """

    name: str
    value: str | None
    note: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class SinceApproved:
    """The last approved request for the same tool of the same agent, and how a later one differs from it.

    ``count`` is the number of approved requests, up to a limit, whose arguments ``history`` compares. With
    ``is_masked``, a part of the arguments of one of the two is masked, so that they may differ where they look equal.

    ``moved`` names the hashes that differ, and ``tool`` has the differences in what the tool's hash covers. ``links``
    has those between the links of both, if they are stored and the caller may see them.
    """

    last: Any
    arguments: list[Change] = field(default_factory=list[Change])
    is_masked: bool = False
    moved: tuple[str, ...] = ()
    tool: list[Change] = field(default_factory=list[Change])
    links: Any = None
    count: int = 1
    history: list[ArgumentHistory] = field(default_factory=list[ArgumentHistory])


async def fingerprint_of(page: PageRequest, hash: str | None) -> Any:
    """Return what a hash covers, ``None`` if it is unknown or the caller may not read it."""
    if not hash or not page.caller.has("capset:read"):
        return None
    with suppress_refusals(403, 404, 422):
        return (await page.api.get("fingerprints", hash))["payload"]


async def run_of(page: PageRequest, request: Any) -> Mapping[str, Any]:
    """Return the ``link`` of the run that a request came from, and the ``version`` of its agent, if they are known."""
    link = await _link(page, request)
    if link is None:
        return {"link": None, "version": None}
    version_page = await page.api.find("agents", link["agent_id"], "versions")
    versions: list[Any] = [] if version_page is None else version_page["items"]
    same = [version["version"] for version in versions if version["static_hash"] == link["static_hash"]]
    return {"link": link, "version": same[0] if same else None}


async def changes_since_approved(page: PageRequest, request: Any, tool: Any) -> SinceApproved | None:
    """Compare a request with the last approved one before it; ``None`` if there is none that the caller may see."""
    approved = await _approved_before(page, request)
    if not approved:
        return None
    last = approved[0]
    before, after = present_arguments(last), present_arguments(request)
    moved = tuple(name for name in _HASHES if last[name] != request[name])
    definition = await fingerprint_of(page, last["tool_hash"]) if "tool_hash" in moved else None
    return SinceApproved(
        last,
        [*islice(_changes("", before, after), MOST)],
        _is_masked(before, after),
        moved,
        [*islice(_changes("", definition, tool), MOST)] if definition and tool else [],
        await _links_diff(page, last, request),
        len(approved),
        [*islice(_histories(after, [present_arguments(earlier) for earlier in approved]), MOST)],
    )


async def earlier_requests(page: PageRequest, request: Any) -> list[Any]:
    """Return the newest requests for the same tool before another one, of any status, agent and principal.

    There are none for a caller that may only see the requests of its own sessions.
    """
    if not page.caller.has("capset:approve"):
        return []
    return (await page.api.get("approvals", tool=request["tool"], cursor=request["id"], limit=_EARLIER))["items"]


def _histories(arguments: Any, approved: Sequence[Any]) -> Iterator[ArgumentHistory]:
    """Yield a comparison for each argument, if there are several approved requests; one alone is shown as a whole."""
    if len(approved) < 2 or not all(isinstance(values, dict) for values in (arguments, *approved)):
        return
    for name in {key: None for values in (arguments, *approved) for key in values}:
        text, *earlier = [_text_of(values, name) for values in (arguments, *approved)]
        same = earlier.count(text)
        if any(MASK in other for other in (text, *earlier) if other is not None):
            note, is_new = "masked, not compared", False
        elif same:
            note, is_new = f"same in {'all ' if same == len(earlier) else f'{same} of '}{len(earlier)}", False
        else:
            note, is_new = _range_note(text, earlier) or _values_note(earlier), True
        value = None if text is None else brief(arguments[name], _LONGEST)
        yield ArgumentHistory(name, value, note, is_new)


def _text_of(arguments: Mapping[str, Any], name: str) -> str | None:
    """Return an argument as JSON text, the same for equal values; ``None`` if it is absent."""
    return json.dumps(arguments[name], ensure_ascii=False, sort_keys=True) if name in arguments else None


def _range_note(text: str | None, earlier: Sequence[str | None]) -> str | None:
    """Return how a new number compares with those that were approved; ``None`` if one of the values is no number."""
    numbers = [json.loads(value) for value in (text, *earlier) if value is not None]
    is_number = [isinstance(number, int | float) and not isinstance(number, bool) for number in numbers]
    if len(numbers) <= len(earlier) or not all(is_number):
        return None
    number, *others = numbers
    low, high = min(others), max(others)
    approved = f"the approved range ({one_line(low)}{'' if low == high else f' to {one_line(high)}'})"
    if low <= number <= high:
        return f"new, but within {approved}"
    return f"{'above' if number > high else 'below'} {approved}"


def _values_note(earlier: Sequence[str | None]) -> str:
    """Return that a value is new, with some of those that were approved."""
    distinct = [*dict.fromkeys(earlier)]
    values = ["absent" if text is None else brief(json.loads(text), 60) for text in distinct[:_DISTINCT]]
    more = len(distinct) - len(values)
    last = counted(more, "other") if more else values.pop() if len(values) > 1 else None
    return f"not approved before; so far: {', '.join(values)}{f' and {last}' if last is not None else ''}"


def _is_masked(*arguments: Any) -> bool:
    return any(MASK in one_line(values) for values in arguments)


def _changes(path: str, before: Any, after: Any) -> Iterator[Change]:
    """Yield the members that differ. Lists are compared as a whole: crafted ones could take too long otherwise."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        if json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True):
            yield Change(path, "changed", before, after)
        return
    ours, theirs = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
    for key in {**ours, **theirs}:
        member_path = f"{path}.{key}" if path else key
        if key not in theirs:
            yield Change(member_path, "removed", before=ours[key])
        elif key not in ours:
            yield Change(member_path, "added", after=theirs[key])
        else:
            yield from _changes(member_path, ours[key], theirs[key])


async def _approved_before(page: PageRequest, request: Any) -> list[Any]:
    """Return the newest approved requests before another one, of the same tool and agent, used or not.

    There are none for a caller that may only see the requests of its own sessions.
    """
    if not page.caller.has("capset:approve"):
        return []
    requests: list[Any] = []
    for status in ("approved", "used"):
        alike = {"tool": request["tool"], "agent": request["agent"], "status": status}
        requests += (await page.api.get("approvals", **alike, cursor=request["id"], limit=_EARLIER))["items"]
    return sorted(requests, key=lambda candidate: candidate["id"], reverse=True)[:_EARLIER]


async def _links_diff(page: PageRequest, last: Any, request: Any) -> Any:
    before, after = await _link(page, last), await _link(page, request)
    if before is None or after is None or all(before[name] == after[name] for name in _LINKED):
        return None
    return await page.api.find("links", "diff", before=before["id"], after=after["id"])


async def _link(page: PageRequest, request: Any) -> Any:
    """Return the link of the run that a request came from, if it is stored and the caller may see it.

    It is the session's newest link before the request with the same runtime hash, else the first one after it.
    """
    if not page.caller.has("capset:audit"):
        return None
    link_page = await page.api.find("links", session_id=request["session"], limit=_LINKS)
    links: list[Any] = [] if link_page is None else link_page["items"]
    fitting = [link for link in links if link["runtime_hash"] == request["runtime_hash"]]
    earlier = [link for link in fitting if link["created_at"] <= request["created_at"]]
    return next(iter([*earlier, *reversed(fitting)]), None)
