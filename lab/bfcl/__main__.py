"""``python -m lab.bfcl``: make tools of BFCL's function documents, and hold its possible answers to them.

It ends with 0 if at least 95 % of the documents become tools and every possible answer of these is valid, and with 1
otherwise. With ``--known``, answers that ``contradictions.toml`` lists, each with the reason, may be invalid; an answer
that is listed and valid is an error, too.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from capset.definitions.tools.definition import AnyTool
from capset.errors import DefinitionError
from capset.schemas.validation_errors import SchemaMismatch
from capset_connect.interop import import_tools
from lab.bfcl import Failed
from lab.bfcl.calls import calls_of
from lab.bfcl.documents import NAME, VERSION, answers, documents, fetch

LEAST: Final = 0.95
"""The part of the documents that becomes tools."""
LISTED: Final = Path(__file__).with_name("contradictions.toml")


@dataclass
class Counts:
    """The numbers of one file."""

    documents: int = 0
    tools: int = 0
    answers: int = 0
    calls: int = 0
    valid: int = 0
    passed: int = 0
    refused: list[str] = field(default_factory=list[str])


async def _never(name: str, arguments: dict[str, Any]) -> None:
    raise NotImplementedError(f"{name} is only validated")


@cache
def _tool(document: str) -> AnyTool | str:
    """Return the tool of a document, or why it is refused."""
    definition = json.loads(document)
    try:
        imported = import_tools(definition, name="bfcl", handler=_never, effect="read")
    except DefinitionError as error:
        return error.message.partition("cannot be tools: ")[2]
    return imported.tools[definition["name"]]


def main(arguments: list[str]) -> int:
    """Do all of it."""
    if arguments not in ([], ["--known"]):
        print(f"bfcl: the only option is --known; got {' '.join(arguments)}", file=sys.stderr)
        return 2
    try:
        fetch()
        counts, invalid = _measured()
    except Failed as error:
        print(f"bfcl: {error}", file=sys.stderr)
        return 1
    total = _print_table(counts)
    known_reasons = {
        answer_id: reason for reason, ids in tomllib.loads(LISTED.read_text("utf-8")).items() for answer_id in ids
    }
    for answer, problem in invalid.items():
        print(f"invalid: {answer}: {problem} ({known_reasons.get(answer, 'NOT LISTED')})")
    for reason, count in Counter(known_reasons.get(answer, "not listed") for answer in invalid).items():
        print(f"{count} answers: {reason}")
    stale = sorted(known_reasons.keys() - invalid.keys())
    for answer in stale:
        print(f"bfcl: {answer} is listed in {LISTED.name}, and is valid", file=sys.stderr)
    accepted = total.tools / total.documents
    print(f"{total.tools:,} of {total.documents:,} documents are tools ({accepted:.2%})")
    print(f"{total.valid:,} of {total.calls:,} calls are valid")
    failing = invalid.keys() - known_reasons.keys() if arguments else invalid.keys()
    return 1 if accepted < LEAST or failing or (arguments and stale) else 0


def _measured() -> tuple[dict[str, Counts], dict[str, str]]:
    """Return the numbers by file, and of each answer that is not valid why its first call is not."""
    counts: dict[str, Counts] = {}
    invalid: dict[str, str] = {}
    for file, document in documents():
        file_counts = counts.setdefault(file, Counts())
        file_counts.documents += 1
        tool_or_refusal = _tool(json.dumps(document))
        if isinstance(tool_or_refusal, str):
            file_counts.refused.append(tool_or_refusal)
        else:
            file_counts.tools += 1
    for answer in answers():
        tool_or_refusal = _tool(json.dumps(answer.document))
        if isinstance(tool_or_refusal, str):
            continue
        file_counts = counts.setdefault(answer.file, Counts())
        file_counts.answers += 1
        calls, passed = calls_of(answer, tool_or_refusal.arguments.json_schema)
        file_counts.passed += passed
        for call in calls:
            file_counts.calls += 1
            try:
                tool_or_refusal.arguments.check_json(json.dumps(call))
                file_counts.valid += 1
            except SchemaMismatch as error:
                invalid.setdefault(answer.id, f"{answer.document['name']}: {error}")
    return counts, invalid


def _print_table(counts: dict[str, Counts]) -> Counts:
    """Print the numbers of each file and their sums, and return these."""
    total = Counts()
    print(f"{NAME} {VERSION}")
    print(f"{'file':<34} {'documents':>9} {'tools':>6} {'answers':>8} {'calls':>6} {'valid':>6} {'passed over':>11}")
    for file, row_counts in [*counts.items(), ("all", total)]:
        numbers = (
            row_counts.documents,
            row_counts.tools,
            row_counts.answers,
            row_counts.calls,
            row_counts.valid,
            row_counts.passed,
        )
        print("{:<34} {:>9} {:>6} {:>8} {:>6} {:>6} {:>11}".format(file, *numbers))
        if row_counts is not total:
            for name in ("documents", "tools", "answers", "calls", "valid", "passed"):
                setattr(total, name, getattr(total, name) + getattr(row_counts, name))
            total.refused += row_counts.refused
    for reason, count in Counter(total.refused).items():
        print(f"refused: {reason} ({count} times)")
    return total


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
