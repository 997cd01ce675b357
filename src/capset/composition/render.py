"""The system text for the model (spec 1, C17, C21)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from capset.composition.context import Rendered
from capset.composition.sources import Contributed


def render_system(
    system_prompt: str,
    instructions: Sequence[Contributed[str]],
    told: Sequence[str] = (),
    context: Rendered | None = None,
) -> str:
    """Return the system text, with blank lines between its parts.

    Each capability's instructions have a block of their own; then come the prompt, the block's own instructions, the
    instructions of toolkits and tools (``told``), the context as XML, and the plain texts.
    """
    blocks: dict[str, list[str]] = {}
    own: list[str] = []
    for one in instructions:
        name = one.source.capability
        (own if name is None else blocks.setdefault(name, [])).append(one.value)
    known = [_block(name, texts) for name, texts in blocks.items()]
    shown = (context.xml, *(text.strip() for text in context.texts)) if context else ()
    return "\n\n".join(text for text in (*known, system_prompt.strip(), *own, *told, *shown) if text)


def _block(name: str, texts: Iterable[str]) -> str:
    return "\n".join((f'<capability id="{name}">', "\n\n".join(texts), "</capability>"))
