"""The system text for the model, and its context, merged by key (spec 1, C17, C21, C23–C26)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from capset.composition.sources import Contributed, ContributionSource
from capset.definitions.model_context import MAX_LEVELS, ContextMessage, ContextValue, message_mistake
from capset.errors import ContextError, ContextShapeConflict

RESERVED: Final = frozenset(
    {
        *("system", "user", "assistant", "developer", "human", "ai", "tool", "capability", "capabilities"),
        *("tool-use", "tool-call", "tool-calls", "tool-result", "tool-results", "function", "function-call"),
        *("function-calls", "function-result", "invoke", "thinking", "reasoning"),
    }
)
"""Reserved tags: models and providers might not treat their content as data."""
_TAG: Final = re.compile(r"[a-z][a-z0-9-]*")
_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\s]+")


@dataclass(frozen=True, slots=True)
class Rendered:
    """Resolved context: the XML of all tags, the plain texts, and the separate messages."""

    xml: str
    texts: tuple[str, ...]
    messages: tuple[ContextMessage, ...]


@dataclass(slots=True)
class _Tag:
    """A tag that is being collected; ``source`` is the contributor that determined its shape."""

    shape: Literal["text", "mapping"] | None = None
    source: ContributionSource | None = None
    texts: list[str] = field(default_factory=list[str])
    inner: dict[str, _Tag] = field(default_factory=dict[str, "_Tag"])


def render_context(values: Iterable[tuple[ContributionSource, ContextValue]]) -> Rendered:
    """Merge resolved context entries, in order. Equal values give equal bytes.

    Raises ``ContextError`` for an invalid tag or value, and ``ContextShapeConflict`` if one contributor gives text and
    another a mapping under the same key; each names the contributors.
    """
    tags: dict[str, _Tag] = {}
    texts: list[str] = []
    messages: list[ContextMessage] = []

    def take(source: ContributionSource, value: object, level: int) -> None:
        _check_level(level, source)
        match value:
            case None:
                pass
            case str():
                if value.strip():
                    texts.append(_checked(value, source))
            case ContextMessage():
                messages.append(value)
            case Mapping():
                if (mistake := message_mistake(cast("Mapping[Any, Any]", value))) is not None:
                    raise ContextError(f"the context of {source} has {mistake[0]}", hint=mistake[1])
                _gather(tags, cast("Mapping[Any, Any]", value), source, (), level)
            case list() | tuple():
                for member in cast("Sequence[object]", value):
                    take(source, member, level + 1)
            case _:
                raise _refused(source, value, ())

    for source, value in values:
        take(source, value, 0)
    return Rendered("\n".join(_lines(tags, 0)), tuple(texts), tuple(messages))


def tag_of(key: object) -> str | None:
    """Convert a key to a tag, ``userPreferences`` to ``user-preferences``; return ``None`` if that is impossible."""
    if not isinstance(key, str) or not key.isascii():
        return None
    tag = _BOUNDARY.sub("-", key).lower()
    return tag if _TAG.fullmatch(tag) and tag not in RESERVED else None


def _check_level(level: int, source: ContributionSource) -> None:
    if level > MAX_LEVELS:
        raise ContextError(f"the context of {source} is nested more than {MAX_LEVELS} levels deep")


def _gather(
    into: dict[str, _Tag], value: Mapping[Any, Any], source: ContributionSource, path: tuple[str, ...], level: int
) -> None:
    for key, member in value.items():
        if (tag := tag_of(key)) is None:
            raise ContextError(
                f"the context of {source} has the key {key!r:.80}, which cannot be a tag",
                hint="a tag is a word such as user-preferences that has no special meaning for models",
            )
        _put(into.setdefault(tag, _Tag()), member, source, (*path, tag), level + 1)


def _put(tag: _Tag, value: object, source: ContributionSource, path: tuple[str, ...], level: int) -> None:
    _check_level(level, source)
    match value:
        case None:
            pass
        case str():
            if value.strip():
                _shape(tag, "text", source, path)
                tag.texts.append(_checked(value, source))
        case Mapping():
            _shape(tag, "mapping", source, path)
            _gather(tag.inner, cast("Mapping[Any, Any]", value), source, path, level)
        case list() | tuple():
            for member in cast("Sequence[object]", value):
                _put(tag, member, source, path, level + 1)
        case _:
            raise _refused(source, value, path)


def _shape(tag: _Tag, shape: Literal["text", "mapping"], source: ContributionSource, path: tuple[str, ...]) -> None:
    if tag.shape is None:
        tag.shape, tag.source = shape, source
    elif tag.shape != shape:
        raise ContextShapeConflict(
            f"<{' '.join(path)}> is {_NAMED[tag.shape]} from {tag.source} and {_NAMED[shape]} from {source}",
            hint="let both give the same shape, or use two keys",
        )


_NAMED: Final = {"text": "text", "mapping": "a mapping"}


def _refused(source: ContributionSource, value: object, path: tuple[str, ...]) -> ContextError:
    where = f" under <{' '.join(path)}>" if path else ""
    return ContextError(
        f"the context of {source} gives {type(value).__name__}{where}: "
        "context is text, a mapping, a list of those or None",
        hint="write it as text, as the model should read it",
    )


def _checked(text: str, source: ContributionSource) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ContextError(f"the context of {source} holds a lone surrogate at position {error.start}") from None
    return text


def _lines(tags: Mapping[str, _Tag], level: int) -> Iterator[str]:
    margin = "  " * level
    for name, tag in tags.items():
        inner = [*_text_lines(tag.texts, margin + "  "), *_lines(tag.inner, level + 1)]
        if inner:
            yield f"{margin}<{name}>"
            yield from inner
            yield f"{margin}</{name}>"


def _text_lines(texts: Iterable[str], margin: str) -> Iterator[str]:
    for text in texts:
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for line in escaped.replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n"):
            yield margin + line if line.strip() else ""


def render_system(
    system_prompt: str,
    instructions: Sequence[Contributed[str]],
    member_instructions: Sequence[str] = (),
    context: Rendered | None = None,
) -> str:
    """Return the system text, with blank lines between its parts.

    The parts are, in this order: one block for the instructions of each capability, the prompt, the block's own
    instructions, the instructions of toolkits and tools (``member_instructions``), the context as XML, and the plain
    texts.
    """
    blocks: dict[str, list[str]] = {}
    block_texts: list[str] = []
    for instruction in instructions:
        name = instruction.source.capability
        (block_texts if name is None else blocks.setdefault(name, [])).append(instruction.value)
    rendered_blocks = [_block(name, texts) for name, texts in blocks.items()]
    context_texts = (context.xml, *(text.strip() for text in context.texts)) if context else ()
    return "\n\n".join(
        text
        for text in (*rendered_blocks, system_prompt.strip(), *block_texts, *member_instructions, *context_texts)
        if text
    )


def _block(name: str, texts: Iterable[str]) -> str:
    return "\n".join((f'<capability id="{name}">', "\n\n".join(texts), "</capability>"))
