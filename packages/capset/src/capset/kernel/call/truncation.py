"""Truncation of results for models: the whole result, or its beginning and a file with the whole (spec 4, G26)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from capset.errors import CapsetError, StoreError
from capset.kernel.call.session_context import SessionContext

RESULTS_FOLDER: Final = "/results"
"""The folder in a session's files that holds its truncated results in full."""
_encode: Final = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps creates an encoder each time
_log = logging.getLogger("capset.kernel")


@dataclass(frozen=True, slots=True)
class Truncated:
    """The text for a model. If ``is_cut``, the whole is in ``file``, unless it could not be stored.

    ``pieces`` are the pieces of a result that is content, in JSON; if it was cut, one text replaces all of their texts.
    In ``text``, a line describes each image or other medium.
    """

    text: str
    is_cut: bool = False
    file: str | None = None
    pieces: Sequence[Mapping[str, Any]] = ()


async def truncate_for_model(context: SessionContext, record: str, data: Any, *, after: str = "") -> Truncated:
    """Return a call's result, or the text of its error, as a model receives it; if it is cut, store the whole.

    ``data`` is JSON data; a string is used without quotes. ``after`` is appended, truncated or not. The returned text
    is no longer than the governance's ``result_bytes`` in UTF-8, and is cut between two characters. Data other than
    text is cut in its stored form, with one line per member, since files are read by lines. If the whole cannot be
    stored, the text gives the reason.
    """
    cap = context.runtime.governance.result_bytes
    text = data if isinstance(data, str) else _encode(data)
    if 4 * (len(text) + len(after)) <= cap or len(_bytes(text + after)) <= cap:
        return Truncated(text + after)
    file = f"{RESULTS_FOLDER}/{record}.txt"
    if not isinstance(data, str):
        file, text = f"{RESULTS_FOLDER}/{record}.json", json.dumps(data, ensure_ascii=False, indent=1)
    content = _bytes(text)
    problem = await store_result(context, file, content)
    hint = f"all of it is in the session's file {file}: read that in parts"
    if problem is not None:
        hint = f"the whole was not kept: {problem}"
    note = _bytes(f"\n\n[cut: this is the beginning of {len(content):,} bytes; {hint}]{after[:400]}")
    beginning = content[: max(cap - len(note), 0)]
    return Truncated((beginning + note).decode(errors="ignore"), True, file if problem is None else None)


async def truncate_content(context: SessionContext, record: str, pieces: Sequence[Mapping[str, Any]]) -> Truncated:
    """Return a result that is content as ``truncate_for_model`` does: its texts are cut together, its media never.

    ``pieces`` are JSON data.
    """
    texts = [piece["text"] for piece in pieces if piece.get("text") is not None]
    truncated = await truncate_for_model(context, record, "\n".join(texts))
    if truncated.is_cut:
        pieces = [{"type": "text", "text": truncated.text}, *(piece for piece in pieces if piece.get("text") is None)]
    return replace(truncated, text="\n".join(map(text_of, pieces)), pieces=pieces)


def text_of(piece: Mapping[str, Any]) -> str:
    """Return a piece of content as text: its own text, or a line that describes it."""
    if (text := piece.get("text")) is not None:
        return text
    about = [piece.get(member) for member in ("type", "name", "description", "uri", "media_type")]
    if (data := piece.get("data")) is not None:
        about.append(f"{len(data) * 3 // 4:,} bytes")
    return f"[{', '.join(filter(None, about))}]"


async def store_result(context: SessionContext, file: str, content: bytes) -> str | None:
    """Store a result in the session's files; if that fails, return a reason that is safe to show."""
    try:
        await context.files.write(file, content)
    except StoreError as failure:  # its own text may contain a path on the host
        _log.error("%s of the session %s could not be stored: %s", file, context.id, failure.message)
        return "the store is not available"
    except CapsetError as refusal:
        return refusal.message
    return None


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")  # errors may hold lone surrogates
