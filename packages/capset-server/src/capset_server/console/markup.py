"""Templates and their filters. Everything is escaped, and hidden characters are spelled out."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from capset.fingerprint.changes import differing_ranges
from capset_connect.legible_text import indented, legible, whole_data
from capset_server.console.schema_forms import arguments

_CONTEXT: Final = 2
_MOST_LINES: Final = 2_000
"""Maximum lines of a text that is compared."""
_MOST_ROWS: Final = 300
"""Maximum lines of a comparison that are shown."""
_MOST_LETTERS: Final = 2_000
"""Maximum characters of a line that are shown."""


class DiffLine(NamedTuple):
    """One line of a comparison: ``sign`` is ``+``, ``-``, a space, or ``…`` for lines that are left out."""

    sign: str
    text: str


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """Return the lines of two texts that differ, with some context."""
    ours, theirs = before.splitlines(), after.splitlines()
    if max(len(ours), len(theirs)) > _MOST_LINES:
        return [DiffLine("…", f"more than {_MOST_LINES:,} lines are not compared: {len(ours):,} and {len(theirs):,}")]
    lines: list[DiffLine] = []
    end = 0
    for a, b, c, d in differing_ranges(ours, theirs):
        lines += _same(ours[end:a], after=_CONTEXT if lines else 0, before=_CONTEXT)
        lines += [_line("-", text) for text in ours[a:b]]
        lines += [_line("+", text) for text in theirs[c:d]]
        end = b
    lines += _same(ours[end:], after=_CONTEXT, before=0) if lines else []
    more = len(lines) - _MOST_ROWS
    return lines if more <= 0 else [*lines[:_MOST_ROWS], DiffLine("…", f"{more:,} more lines")]


def _same(lines: list[str], *, after: int, before: int) -> list[DiffLine]:
    """Return the context after a difference, and before the next one."""
    if len(lines) <= after + before:
        return [_line(" ", text) for text in lines]
    head, tail = lines[:after], lines[len(lines) - before :]
    left_out = _left_out(len(lines) - after - before)
    return [*(_line(" ", text) for text in head), left_out, *(_line(" ", text) for text in tail)]


def _line(sign: str, text: str) -> DiffLine:
    more = len(text) - _MOST_LETTERS
    return DiffLine(sign, text if more <= 0 else f"{text[:_MOST_LETTERS]} … {more:,} more characters")


def _left_out(count: int) -> DiffLine:
    return DiffLine("…", f"{count:,} lines are the same" if count > 1 else "1 line is the same")


SHOWN: Final = 20_000
"""Maximum characters of a value that a page shows; a note gives the size of the rest, with a download if possible."""
_MEMBERS: Final = 20
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_WINDOWS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_SIZES: Final = ("bytes", "kB", "MB", "GB")


@cache
def environment() -> Environment:
    """Return the environment of the templates."""
    jinja = Environment(
        loader=PackageLoader("capset_server.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    filters = cast("dict[str, Any]", jinja.filters)
    filters |= {function.__name__: function for function in _FILTERS}
    return jinja


def _shown(value: object) -> object:
    """Return a value as it is shown: text with its hidden characters spelled out, nothing for ``None``."""
    if value is None:
        return ""
    return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def exact(value: object) -> Markup:
    """Escape text and change nothing else, for form fields whose value is sent back."""
    return escape("" if value is None else str(value))


def pretty(value: object, limit: int = SHOWN) -> str:
    """Return JSON data on several lines, cut off after ``limit`` characters with a note."""
    text, is_whole = indented(value, limit)
    return text if is_whole else f"{text}\n… cut off: {len(one_line(value)):,} characters in total on one line"


def one_line(value: object) -> str:
    """Return JSON data on one line, as text to be escaped like any other."""
    return json.dumps(value, ensure_ascii=False)


def shorten(text: str, limit: int = SHOWN) -> str:
    """Return a text, cut off after ``limit`` characters with a note of how many are missing."""
    return text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit:,} more characters"


def brief(value: object, limit: int = 160) -> str:
    """Return JSON data on one line, cut off after ``limit`` characters: ``to: bob, amount: 5``."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        parts = [f"{key}: {_on_one_line(member, limit)}" for key, member in islice(members.items(), _MEMBERS)]
        text = ", ".join([*parts, *(["…"] if len(members) > _MEMBERS else [])])
    else:
        text = _on_one_line(value, limit)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _on_one_line(value: object, limit: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text[: limit + 1].split())


def short(text: str | None, limit: int = 12) -> str:
    """Return the beginning of a hash or an id."""
    return "" if text is None else text if len(text) <= limit else f"{text[:limit]}…"


def size(byte_count: float) -> str:
    """Return a number of bytes for people: ``1.5 kB``."""
    value, at = float(byte_count), 0
    while value >= 1_000 and at < len(_SIZES) - 1:
        value, at = value / 1_000, at + 1
    return f"{value:,.0f} {_SIZES[at]}" if at == 0 or value >= 100 else f"{value:,.1f} {_SIZES[at]}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 tool``, ``2 tools``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def amount(number: float) -> str:
    """Return a number for people, with four decimals at most: ``1,000``, ``1.25``."""
    return f"{number:,.4f}".rstrip("0").rstrip(".")


def seconds(duration: float) -> str:
    """Return a duration for people: ``3 min``."""
    for length, unit in _UNITS:
        if duration >= length:
            return f"{duration / length:.0f} {unit}"
    return f"{duration * 1000:.0f} ms"


def elapsed(begin: str | None, end: str | None) -> str:
    """Return the time between two times, ISO 8601 UTC, for people; nothing if one is missing."""
    if not begin or not end:
        return ""
    return seconds((datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds())


@pass_context
def moment(context: Context, text: str | None) -> Markup:
    """Return a time, ISO 8601 UTC, relative to the page's ``now``, with the exact time as the tooltip.

    ``now`` is the time of the kernel's clock.
    """
    if not text:
        return Markup()
    try:
        apart = (datetime.fromisoformat(context["now"]) - datetime.fromisoformat(text)).total_seconds()
    except ValueError:
        return escape(text)
    phrase = f"{seconds(apart)} ago" if apart > 0 else f"in {seconds(-apart)}"
    phrase = "now" if abs(apart) < 1 else phrase
    exactly = text.replace("T", " ")[:19] + " UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(text, exactly, phrase)


def limit_words(limit: Any) -> str:  # JSON data of a tool's payload
    """Return a limit of a tool in words: ``at most 10 calls per hour and principal``."""
    length = limit["window"]
    size, unit = next((size, unit) for size, unit in _WINDOWS if length % size == 0)
    window = unit if length == size else counted(length // size, unit)
    counted_for = {"all": ", for all callers together", "org": " and organisation"}.get(
        limit["per"], f" and {limit['per']}"
    )
    separately = ", counted separately in each process" if limit.get("scope") == "process" else ""
    return f"at most {counted(limit['requests'], 'call')} per {window}{counted_for}{separately}"


def utc(seconds: int) -> str:
    """Return Unix time in seconds as a time in UTC: ``2026-01-31 12:00:00``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ")[:19]


def whole_json(value: object) -> str:
    """Return JSON data on several lines, without a limit."""
    return json.dumps(value, indent=2, ensure_ascii=False)


_FILTERS: Final = (
    exact,
    pretty,
    whole_data,
    moment,
    elapsed,
    short,
    size,
    counted,
    seconds,
    amount,
    shorten,
    arguments,
    diff_lines,
    one_line,
    utc,
    limit_words,
    whole_json,
    brief,
)


def address(root: str) -> Callable[..., Markup]:
    """Return the function ``url("approvals", id, status="pending")`` of a server whose paths begin with ``root``."""

    def url(*segments: object, **query: object) -> Markup:
        path = "/".join(quote(str(segment), safe="") for segment in segments)
        query_string = urlencode(
            {name: str(value) for name, value in query.items() if value is not None and value != ""}
        )
        return escape(f"{root}/{path}" + (f"?{query_string}" if query_string else ""))

    return url


def static(name: str) -> bytes:
    """Return the content of a static file of the console."""
    return (files("capset_server.console") / "static" / name).read_bytes()


def render(template: str, values: dict[str, Any]) -> bytes:  # of any type that a template shows
    """Render a template."""
    return environment().get_template(template).render(values).encode(errors="replace")
