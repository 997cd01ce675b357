"""Slack messages: blocks that show untrusted text as plain text, and the actions of their buttons (spec 9, N31)."""

from __future__ import annotations

from typing import Any, Final, Literal, cast

from capset_connect.notifications.texts import Words

ACTIONS: Final[dict[str, Literal["approve", "reject"]]] = {"capset_approve": "approve", "capset_reject": "reject"}
"""The decision of each button, by its action id."""
_HEADER: Final = 150
_PARTLY: Final = "Not all of the arguments are shown here. Review and decide the request {where}."


def blocks_of(words: Words, request: str, url: str | None) -> list[dict[str, Any]]:  # blocks, as Slack documents them
    """Return the blocks of a message. It has buttons only for an open request whose arguments it shows completely."""
    from slack_sdk.models.blocks import (
        ActionsBlock,
        Block,
        ButtonElement,
        HeaderBlock,
        MarkdownTextObject,
        PlainTextObject,
        RichTextBlock,
        RichTextElementParts,
        RichTextPreformattedElement,
        SectionBlock,
    )

    facts = "\n".join(f"{name}: {value}" for name, value in words.facts)
    arguments = RichTextPreformattedElement(elements=[RichTextElementParts.Text(text=words.arguments)])
    blocks: list[Block] = [
        HeaderBlock(text=PlainTextObject(text=words.title[:_HEADER], emoji=False)),
        SectionBlock(text=PlainTextObject(text=facts[:3_000], emoji=False)),
        RichTextBlock(elements=[arguments]),
    ]
    if words.is_open and words.is_whole:
        buttons = [
            ButtonElement(text=title, action_id=action, value=request, style=style)
            for action, title, style in (
                ("capset_approve", "Approve", "primary"),
                ("capset_reject", "Reject", "danger"),
            )
        ]
        blocks.append(ActionsBlock(elements=[*buttons]))
    elif words.is_open:
        where = "on its page" if url else "with capset approvals list, or over REST"
        blocks.append(SectionBlock(text=PlainTextObject(text=_PARTLY.format(where=where), emoji=False)))
    if url is not None:
        blocks.append(SectionBlock(text=MarkdownTextObject(text=f"<{escaped(url)}|Open the request>")))
    return [cast("Any", block).to_dict() for block in blocks]  # untyped in the library


def escaped(text: str) -> str:
    """Escape text so that Slack does not read it as markup, in which a mention would notify people."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
