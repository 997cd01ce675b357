"""``python -m lab.corpus.loading``: load the documents that are named on standard input, a line of JSON for each.

A document that takes longer than ``DOCUMENT_SECONDS`` ends the process, as one does that overflows the stack.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from capset.errors import CapsetError
from capset_connect.openapi import OpenApi, OpenApiClient
from capset_connect.openapi.document import ApiDocument, parse_document
from capset_connect.openapi.operations import offers_of
from capset_connect.openapi.tools import capability_of
from capset_connect.pins.offers import Offer
from capset_connect.pins.tool_pins import pin_of
from lab.corpus.nodes import Operation, operations_of, tags_of

DOCUMENT_SECONDS: Final = 600
MOST_AT_ONCE: Final = 1_000
"""A document with more operations is used by its tags."""
URL: Final = "https://api.example"
"""The URL of every API: documents may leave theirs out, and then its host says it."""
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMBER: Final = re.compile(r"\d[\d,]*")


class NoSecrets:
    """A source of secrets that has none."""

    async def get(self, name: str) -> str | None:
        """Return nothing."""
        return None


@dataclass
class LoadedDocument:
    """What became of a document. ``peak_bytes`` is the largest resident set of its process until then."""

    path: str
    operations: int = 0
    tools: int = 0
    reasons: dict[str, int] = field(default_factory=dict[str, int])
    """The reasons of the operations that are no tools, and how many have each."""
    is_by_tag: bool = False
    crash: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0


def load(path: Path) -> LoadedDocument:
    """Load a document, and make a tool of each operation."""
    loaded, began = LoadedDocument(str(path)), time.monotonic()
    try:
        _load(path, loaded)
    except Exception as error:
        loaded.crash = f"{type(error).__name__}: {error}"
    loaded.seconds = time.monotonic() - began
    loaded.peak_bytes = _peak_bytes()
    return loaded


def _peak_bytes() -> int:
    """Return the largest resident set of this process so far.

    ``ru_maxrss`` is at least that of the process that started this one; what Linux has in ``VmHWM`` is not.
    """
    status = Path("/proc/self/status")
    if status.exists() and (peak := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(peak[1]) * 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1_024)


def _load(path: Path, loaded: LoadedDocument) -> None:
    data = path.read_bytes()
    selections = list(_selections(data, loaded))
    reasons = Counter[str]()
    try:
        document = parse_document(data, path.name)
    except CapsetError as error:
        loaded.reasons = {kind_of(error.message): loaded.operations}
        return
    problems: dict[str, str | None] = {}  # why each operation is no tool, by its key; None for those that are
    for selection, keys in selections:
        try:
            for name, problem in _problems(document, selection):
                if problems.get(name, "") is not None:
                    problems[name] = problem
        except CapsetError as error:
            for key in keys:
                problems.setdefault(key, error.message)
    for problem in problems.values():
        if problem is None:
            loaded.tools += 1
        else:
            reasons[kind_of(problem)] += 1
    # Operations of one id have one offer, which cannot be used.
    reasons["another operation has its id"] += loaded.operations - len(problems)
    loaded.reasons = dict(+reasons)


def _selections(data: bytes, loaded: LoadedDocument) -> Iterator[tuple[dict[str, Any], Sequence[str]]]:
    """Count the operations of a document, and yield what a host selects of it: all, or the operations of each tag."""
    operations = operations_of(json.loads(data))
    loaded.operations = len(operations)
    loaded.is_by_tag = len(operations) > MOST_AT_ONCE
    if not loaded.is_by_tag:
        yield {}, _keys(operations)
        return
    by_tag: dict[str, list[Operation]] = {}
    for operation in operations:
        for tag in tags_of(operation) or [""]:
            by_tag.setdefault(tag, []).append(operation)
    for tag, tagged in by_tag.items():
        yield {"tags": [tag]} if tag else {"operations": _keys(tagged)}, _keys(tagged)


def _keys(operations: Sequence[Operation]) -> list[str]:
    return list(dict.fromkeys(operation.key for operation in operations))


def _problems(document: ApiDocument, selection: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each selected operation, and why it is no tool, if it is none."""
    api = OpenApi(name="api", document="document.json", url=URL, **selection)
    client = OpenApiClient(api, NoSecrets())
    for offer in offers_of(api, document):
        yield offer.name, offer.problems[0] if offer.is_unusable else _tool_problem(client, offer)


def _tool_problem(client: OpenApiClient, offer: Offer) -> str | None:
    """Make the tool of an operation as if it were approved, and return why that cannot be done, if it cannot."""
    pin = pin_of(client.api, offer, "corpus", "2026-01-01T00:00:00Z")
    try:
        (_tool,) = capability_of(client, [pin], None).every_tool
    except CapsetError as error:
        return error.message
    return None


def kind_of(message: str) -> str:
    """Return a message without what is particular to one operation."""
    return _NUMBER.sub("N", _QUOTED.sub("…", message.partition("\n")[0]))[:110]


def main() -> None:
    """Load what is named, until there is no more."""
    for line in sys.stdin:
        signal.alarm(DOCUMENT_SECONDS)
        print(json.dumps(asdict(load(Path(line.rstrip("\n"))))), flush=True)


if __name__ == "__main__":
    main()
