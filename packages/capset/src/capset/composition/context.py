"""The system text for the model, and its context, merged by key (spec 1, C17, C21, C23–C26)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from capset.composition.sources import Contributed, ContributionSource
from capset.definitions.model_context import MAX_CONTEXT_LEVELS, ContextMessage, ContextValue, provider_message_error
from capset.errors import ContextError, ContextShapeConflict

RESERVED_TAGS: Final = frozenset(
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
class RenderedContext:
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


def render_context(values: Iterable[tuple[ContributionSource, ContextValue]]) -> RenderedContext:
    """Merge resolved context entries, in order. Equal values give equal bytes.

    Raises ``ContextError`` for an invalid tag or value, and ``ContextShapeConflict`` if one contributor gives text and
    another a mapping under the same key; each names the contributors.
    """
    tags: dict[str, _Tag] = {}
    texts: list[str] = []
    messages: list[ContextMessage] = []

    def add(source: ContributionSource, value: object, level: int) -> None:
        _check_level(level, source)
        match value:
            case None:
                pass
            case str():
                if value.strip():
                    texts.append(_checked_text(value, source))
            case ContextMessage():
                messages.append(value)
            case Mapping():
                if (mistake := provider_message_error(cast("Mapping[Any, Any]", value))) is not None:
                    raise ContextError(f"the context of {source} has {mistake[0]}", hint=mistake[1])
                _add_mapping(tags, cast("Mapping[Any, Any]", value), source, (), level)
            case list() | tuple():
                for member in cast("Sequence[object]", value):
                    add(source, member, level + 1)
            case _:
                raise _invalid_value(source, value, ())

    for source, value in values:
        add(source, value, 0)
    return RenderedContext("\n".join(_lines(tags, 0)), tuple(texts), tuple(messages))


def tag_of(key: object) -> str | None:
    """Convert a key to a tag, ``userPreferences`` to ``user-preferences``; return ``None`` if that is impossible."""
    if not isinstance(key, str) or not key.isascii():
        return None
    tag = _BOUNDARY.sub("-", key).lower()
    return tag if _TAG.fullmatch(tag) and tag not in RESERVED_TAGS else None


def _check_level(level: int, source: ContributionSource) -> None:
    if level > MAX_CONTEXT_LEVELS:
        raise ContextError(f"the context of {source} is nested more than {MAX_CONTEXT_LEVELS} levels deep")


def _add_mapping(
    into: dict[str, _Tag], value: Mapping[Any, Any], source: ContributionSource, path: tuple[str, ...], level: int
) -> None:
    for key, member in value.items():
        if (tag := tag_of(key)) is None:
            raise ContextError(
                f"the context of {source} has the key {key!r:.80}, which cannot be a tag",
                hint="a tag is a word such as user-preferences that has no special meaning for models",
            )
        _add_value(into.setdefault(tag, _Tag()), member, source, (*path, tag), level + 1)


def _add_value(tag: _Tag, value: object, source: ContributionSource, path: tuple[str, ...], level: int) -> None:
    _check_level(level, source)
    match value:
        case None:
            pass
        case str():
            if value.strip():
                _set_shape(tag, "text", source, path)
                tag.texts.append(_checked_text(value, source))
        case Mapping():
            _set_shape(tag, "mapping", source, path)
            _add_mapping(tag.inner, cast("Mapping[Any, Any]", value), source, path, level)
        case list() | tuple():
            for member in cast("Sequence[object]", value):
                _add_value(tag, member, source, path, level + 1)
        case _:
            raise _invalid_value(source, value, path)


def _set_shape(tag: _Tag, shape: Literal["text", "mapping"], source: ContributionSource, path: tuple[str, ...]) -> None:
    if tag.shape is None:
        tag.shape, tag.source = shape, source
    elif tag.shape != shape:
        raise ContextShapeConflict(
            f"<{' '.join(path)}> is {_NOUNS[tag.shape]} from {tag.source} and {_NOUNS[shape]} from {source}",
            hint="let both give the same shape, or use two keys",
        )


_NOUNS: Final = {"text": "text", "mapping": "a mapping"}


def _invalid_value(source: ContributionSource, value: object, path: tuple[str, ...]) -> ContextError:
    where = f" under <{' '.join(path)}>" if path else ""
    return ContextError(
        f"the context of {source} gives {type(value).__name__}{where}: "
        "context is text, a mapping, a list of those or None",
        hint="write it as text, as the model should read it",
    )


def _checked_text(text: str, source: ContributionSource) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ContextError(f"the context of {source} holds a lone surrogate at position {error.start}") from None
    return text


def _lines(tags: Mapping[str, _Tag], level: int) -> Iterator[str]:
    indent = "  " * level
    for name, tag in tags.items():
        inner = [*_text_lines(tag.texts, indent + "  "), *_lines(tag.inner, level + 1)]
        if inner:
            yield f"{indent}<{name}>"
            yield from inner
            yield f"{indent}</{name}>"


def _text_lines(texts: Iterable[str], indent: str) -> Iterator[str]:
    for text in texts:
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for line in escaped.replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n"):
            yield indent + line if line.strip() else ""


def render_system(
    system_prompt: str,
    instructions: Sequence[Contributed[str]],
    member_instructions: Sequence[str] = (),
    context: RenderedContext | None = None,
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
