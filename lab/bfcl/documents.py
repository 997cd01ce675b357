"""The function documents of BFCL, and the calls that it takes as answers, from the wheel of ``bfcl-eval``."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.bfcl import Failed

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".venv-bfcl"
NAME: Final = "bfcl-eval"
VERSION: Final = "2026.3.23"
DATA: Final = FOLDER / "bfcl_eval" / "data"
_CLASSES: Final = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""The file of the documents of each class that a conversation of several turns may use."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What BFCL takes as a call of a document: for each parameter the values, or for a call in Python the arguments.

    A call in Python says each argument once; ``is_call`` is true of it.
    """

    id: str
    file: str
    document: dict[str, Any]
    values: dict[str, Any]
    is_call: bool = False


def fetch() -> None:
    """Install the wheel without what it depends on (models' SDKs, torch), of which its data need nothing.

    Raises ``Failed`` if the package index does not have it.
    """
    mark = FOLDER / ".capset-setup"
    if mark.exists() and mark.read_text(encoding="utf-8") == VERSION:
        return
    print(
        f"bfcl: installing {NAME} {VERSION} into {FOLDER.name}, without its dependencies", file=sys.stderr, flush=True
    )
    uv = Path(sys.executable).with_name("uv")
    done = subprocess.run(
        [uv, "pip", "install", "--quiet", "--no-deps", "--target", FOLDER, f"{NAME}=={VERSION}"],
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Failed(f"{FOLDER.name} cannot be made; it needs the package index\n{done.stderr[-2_000:]}")
    mark.write_text(VERSION, encoding="utf-8")


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each document with the name of its file."""
    for path in _questions():
        for row in _rows(path):
            for document in _functions(row):
                yield path.stem, document
    for path in sorted((DATA / "multi_turn_func_doc").glob("*.json")):
        for row in _rows(path):
            yield path.stem, row


def answers() -> Iterator[Answer]:
    """Yield the answers to questions that have documents, or classes of documents."""
    for path in _questions():
        expected = DATA / "possible_answer" / path.name
        if not expected.is_file():
            continue
        questions = {row["id"]: row for row in _rows(path)}
        for row in _rows(expected):
            question = questions[row["id"]]
            if "function" in question:
                yield from _stated(row, path.stem, {document["name"]: document for document in _functions(question)})
            elif "multi_turn" in path.stem:
                yield from _called(row, path.stem, _of_classes(question["involved_classes"]))


def _questions() -> list[Path]:
    # The one of format sensitivity has only the ids of others' questions.
    return [path for path in sorted(DATA.glob("BFCL_*.json")) if "format_sensitivity" not in path.stem]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _functions(row: dict[str, Any]) -> list[dict[str, Any]]:
    functions = row.get("function", [])
    return [functions] if isinstance(functions, dict) else functions


def _of_classes(names: list[str]) -> dict[str, dict[str, Any]]:
    files = [DATA / "multi_turn_func_doc" / f"{_CLASSES[name]}.json" for name in names]
    return {row["name"]: row for file in files for row in _rows(file)}


def _stated(row: dict[str, Any], file: str, documents_by_name: dict[str, dict[str, Any]]) -> Iterator[Answer]:
    for call in row["ground_truth"]:
        for name, values in call.items():
            yield Answer(row["id"], file, documents_by_name[name], values)


def _called(row: dict[str, Any], file: str, documents_by_name: dict[str, dict[str, Any]]) -> Iterator[Answer]:
    """Yield the calls of the turns of a conversation, which are written in Python."""
    for turn in row["ground_truth"]:
        for text in turn:
            call = ast.parse(text, mode="eval").body
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                raise Failed(f"{row['id']}: a call was expected; got {text}")
            document = documents_by_name[call.func.id]
            names = list(document["parameters"]["properties"])
            values = {names[at]: ast.literal_eval(argument) for at, argument in enumerate(call.args)}
            values |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
            yield Answer(row["id"], file, document, values, is_call=True)
