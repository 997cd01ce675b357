"""Checks of turns: links, envelopes and payloads, together or not at all (spec 2, F28–F29)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from capset.errors import StoreError
from capset.fingerprint.hashes import Ref
from capset.stores.base import EnvelopeRow, LinkQuery, LinkRow, PayloadRow
from capset.testing.store_suite.lineage_rows import envelope_row, link_row, payload_row
from capset.testing.store_suite.support import LATER, Check, Make, expect, expect_error, opened, session_row


async def a_turn_comes_back_as_it_was_given(make: Make) -> None:
    """Link, envelope and payloads, with an org and without, with a session and without."""
    async with opened(make) as store:
        lineage = store.lineage
        full = replace(
            link_row("link-1"),
            invocation_hash="5" * 64,
            metadata='{"é": "🌍"}',
            tool_refs=(Ref("Grüße", "6" * 64, "7" * 64), Ref("typed", "6" * 64)),
        )
        plain = replace(link_row("link-1", session=None, org=None), tool_refs=(), created_at=LATER)
        envelope = envelope_row("id-1", "link-1")
        for link in (full, plain):
            own = replace(envelope, org=link.org)
            payloads = [replace(payload_row(number), org=link.org) for number in range(3)]
            expect(await lineage.record_turn(link, own, payloads=iter(payloads)), None, "the first turn's transition")
            expect(await lineage.link(link.org, "link-1"), link, "the link")
            expect(_code(await lineage.link(link.org, "link-1")), _code(link), "the code behind the link's tools")
            expect(await lineage.envelope(link.org, "id-1"), own, "the envelope")
            expect(await lineage.envelope_of(link.org, "link-1"), own, "the link's envelope")
            for row in payloads:
                expect(await lineage.payload(link.org, row.hash), row, "a payload")
        expect(await lineage.link("other", "link-1"), None, "the link for another org")
        expect(await lineage.link("acme", "link-2"), None, "a link that no one recorded")
        expect(await lineage.latest_link("acme", "session-2"), None, "the latest link of a session without any")


def _code(link: LinkRow | None) -> list[str | None]:
    """Return the hashes of code on a link, which equality of references ignores."""
    return [] if link is None else [ref.code for ref in link.tool_refs]


async def a_turn_is_kept_whole_or_not_at_all(make: Make) -> None:
    """Check that a refused turn leaves nothing: neither link nor envelope, payload nor transition."""
    async with opened(make) as store:
        lineage = store.lineage
        first = link_row("link-1")
        await lineage.record_turn(first, envelope_row("id-1", "link-1"))
        moved = link_row("link-2", runtime="b")
        payload = payload_row(0)
        wrong: list[tuple[LinkRow, EnvelopeRow | None, Sequence[PayloadRow]]] = [
            (replace(moved, id="link-1"), envelope_row("id-2", "link-1"), [payload]),
            (moved, envelope_row("id-1", "link-2"), [payload]),
            (moved, envelope_row("id-2", "link-1"), [payload]),
            (moved, envelope_row("id-2", None), [payload]),
            (moved, replace(envelope_row("id-2", "link-2"), org=None), [payload]),
            (moved, envelope_row("id-2", "link-2"), [payload, replace(payload, org="other")]),
        ]
        for link, envelope, payloads in wrong:
            turn = lineage.record_turn(link, envelope, payloads=payloads)
            await expect_error(StoreError, turn, f"the turn of {link.id} with {envelope} and {payloads}")
            expect(await lineage.latest_link("acme", "session-1"), first, "the latest link")
            expect(await lineage.link("acme", "link-2"), None, "the link")
            expect(await lineage.envelope("acme", "id-2"), None, "the envelope")
            for org in ("acme", "other"):
                expect(await lineage.payload(org, payload.hash), None, "the payload")
            expect(await lineage.transitions("acme", "session-1"), (), "the transitions")


async def links_are_listed_newest_first(make: Make) -> None:
    """By id, page by page, and only the requested ones."""
    async with opened(make) as store:
        rows = [link_row(f"link-{number}", session=f"session-{number % 2}") for number in range(6)]
        rows[5] = replace(rows[5], agent_id="agent-2")
        for number in (3, 0, 5, 1, 4, 2):
            await store.lineage.record_turn(rows[number])
        await store.lineage.record_turn(link_row("link-6", session="session-0", org=None))
        page = await store.lineage.links(LinkQuery("acme", limit=4))
        expect(page.items, tuple(reversed(rows[2:])), "the first page")
        await store.lineage.record_turn(link_row("link-7", session=None))
        page = await store.lineage.links(LinkQuery("acme", limit=4, before=page.next))
        expect((page.items, page.next), ((rows[1], rows[0]), None), "the last page")
        for query, ids in (
            (LinkQuery("acme", agent_id="agent-1"), "743210"),
            (LinkQuery("acme", agent_id="agent-2"), "5"),
            (LinkQuery("acme", session="session-0"), "420"),
            (LinkQuery("acme", agent_id="agent-1", session="session-1"), "31"),
            (LinkQuery("acme", session="session-1", before="link-3"), "1"),
            (LinkQuery(None), "6"),
            (LinkQuery("other"), ""),
        ):
            found = (await store.lineage.links(query)).items
            expect([row.id for row in found], [f"link-{one}" for one in ids], f"what {query} finds")


async def links_outlive_their_session(make: Make) -> None:
    """As records do, with everything that belongs to them."""
    async with opened(make) as store:
        await store.sessions.create(session_row("session-1", "acme"))
        await store.lineage.record_turn(link_row("link-1"), envelope_row("id-1", "link-1"))
        moved = await store.lineage.record_turn(link_row("link-2", runtime="b"))
        await store.sessions.delete("session-1")
        expect(await store.lineage.transitions("acme", "session-1"), (moved,), "the transitions")
        expect(await store.lineage.latest_link("acme", "session-1"), link_row("link-2", runtime="b"), "the latest link")
        expect(await store.lineage.envelope_of("acme", "link-1"), envelope_row("id-1", "link-1"), "the envelope")


CHECKS: Final[tuple[Check, ...]] = (
    a_turn_comes_back_as_it_was_given,
    a_turn_is_kept_whole_or_not_at_all,
    links_are_listed_newest_first,
    links_outlive_their_session,
)
