"""Checks of transitions: changes of a session's runtime hash (spec 2, F29)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Final

from capset.errors import StoreError
from capset.stores.base import LinkQuery, TransitionRow
from capset.testing.store_suite.lineage_rows import envelope_row, link_row
from capset.testing.store_suite.support import LATER, NOW, Check, Make, expect, expect_error, opened


async def a_transition_is_kept_when_the_runtime_hash_moves(make: Make) -> None:
    """From the session's last recorded link, regardless of the order of ids and of other sessions."""
    async with opened(make) as store:
        lineage = store.lineage

        async def turn(id: str, runtime: str, reason: str = "") -> TransitionRow | None:
            return await lineage.record_turn(link_row(id, runtime=runtime), reason=reason)

        expect(await turn("link-5", "a", "first"), None, "the first turn")
        expect(await turn("link-9", "a"), None, "a turn with the same hash")
        one = TransitionRow("acme", "session-1", "link-9", "link-2", "a tool came", NOW)
        expect(await turn("link-2", "b", "a tool came"), one, "a turn with another hash, and with an older id")
        for other in (
            link_row("link-6", session="session-2", runtime="a"),
            link_row("link-7", session=None, runtime="a"),
            link_row("link-8", org="other", runtime="a"),
            link_row("link-8", org=None, runtime="a"),
        ):
            expect(await lineage.record_turn(other), None, f"the first turn of {other.session} in {other.org}")
        expect(await turn("link-1", "b"), None, "a turn with the same hash as the last")
        two = TransitionRow("acme", "session-1", "link-1", "link-0", "", NOW)
        expect(await turn("link-0", "a"), two, "a turn with the first hash")
        expect(await lineage.transitions("acme", "session-1"), (one, two), "the session's transitions")
        expect((await lineage.latest_link("acme", "session-1")), link_row("link-0", runtime="a"), "its latest link")
        for org, session in (("acme", "session-2"), ("other", "session-1"), (None, "session-1")):
            expect(await lineage.transitions(org, session), (), f"the transitions of {session} in {org}")


async def concurrent_turns_of_a_session_make_a_chain(make: Make) -> None:
    """Each transition begins where the one before ended, and none is missing."""
    async with opened(make) as store:
        rows = [link_row(f"link-{number:02}", runtime="abc"[number % 3]) for number in range(60)]
        told = await asyncio.gather(*[store.lineage.record_turn(row, envelope_row(row.id, row.id)) for row in rows])
        found = await store.lineage.transitions("acme", "session-1")
        moved = [one for one in told if one]
        expect(sorted(one.to_link for one in found), sorted(one.to_link for one in moved), "the transitions told")
        expect(bool(found), True, "whether there are transitions")
        hashes = {row.id: row.runtime_hash for row in rows}
        for one in found:
            expect(hashes[one.from_link] != hashes[one.to_link], True, f"whether a hash moved by {one}")
        for one, following in pairwise(found):
            # Links between two transitions have the hash that the first of the two leads to.
            expect(hashes[following.from_link], hashes[one.to_link], f"the hash that {following} begins with")
        last = await store.lineage.latest_link("acme", "session-1")
        expect(last and last.runtime_hash, hashes[found[-1].to_link], "the hash of the latest link")
        expect(len((await store.lineage.links(LinkQuery("acme", limit=100))).items), 60, "how many links there are")


async def a_transition_can_be_recorded_by_itself(make: Make) -> None:
    """If both links are in its org; the last 1,000 of a session are returned."""
    async with opened(make) as store:
        lineage = store.lineage
        await lineage.record_turn(link_row("link-1"))
        await lineage.record_turn(link_row("link-2"))
        row = TransitionRow("acme", "session-9", "link-1", "link-2", "by hand", LATER)
        for wrong in (replace(row, from_link="link-3"), replace(row, to_link="link-3"), replace(row, org=None)):
            await expect_error(StoreError, lineage.record_transition(wrong), f"recording {wrong}")
        expect(await lineage.transitions("acme", "session-9"), (), "what is kept of them")
        rows = [replace(row, reason=str(number)) for number in range(1003)]
        for one in rows[:3]:
            await lineage.record_transition(one)
        expect(await lineage.transitions("acme", "session-9"), tuple(rows[:3]), "the transitions")
        await asyncio.gather(*[lineage.record_transition(one) for one in rows[3:-1]])
        await lineage.record_transition(rows[-1])
        found = await lineage.transitions("acme", "session-9")
        expect((len(found), set(found), found[-1]), (1000, set(rows[3:]), rows[-1]), "the last transitions")


async def lineage_outlives_closing(make: Make) -> None:
    """Check that a reopened store has everything recorded before."""
    store = make()
    await store.open()
    await store.lineage.record_turn(link_row("link-1"))
    await store.close()
    await store.open()
    moved = await store.lineage.record_turn(link_row("link-2", runtime="b"), reason="opened again")
    await store.close()
    expect(moved, TransitionRow("acme", "session-1", "link-1", "link-2", "opened again", NOW), "the transition")


CHECKS: Final[tuple[Check, ...]] = (
    a_transition_is_kept_when_the_runtime_hash_moves,
    concurrent_turns_of_a_session_make_a_chain,
    a_transition_can_be_recorded_by_itself,
    lineage_outlives_closing,
)
