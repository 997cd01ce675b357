"""Checks of lineage: registrations, turns with their envelopes and payloads, and transitions (spec 2, F28–F29)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from capset.errors import StoreError
from capset.fingerprint.hashes import Ref
from capset.stores.base import EnvelopeRow, LinkQuery, LinkRow, PayloadRow, RegistrationRow, Sighting, TransitionRow
from capset.stores.base.lineage import LinksFull
from capset_testing.store_suite.support import LATER, NOW, Make, expect, expect_error, open_store, session_row

_A: Final = RegistrationRow("id-1", "acme", "agent-1", "scribe", "a" * 64, "jcs-1", NOW)
_B: Final = replace(_A, id="id-2", static_hash="b" * 64, created_at=LATER)


def link_row(id: str, *, session: str | None = "session-1", runtime: str = "a", org: str | None = "acme") -> LinkRow:
    """Return a link; its runtime hash repeats the digit ``runtime``."""
    return LinkRow(
        id=id,
        org=org,
        session=session,
        agent_id="agent-1",
        agent_name="scribe",
        static_hash="1" * 64,
        runtime_hash=runtime * 64,
        prompt_hash="2" * 64,
        invocation_hash=None,
        profile="jcs-1",
        tool_refs=(Ref("find_note", "3" * 64), Ref("save_note", "4" * 64)),
        metadata="{}",
        created_at=NOW,
    )


def envelope_row(id: str, link: str | None = None) -> EnvelopeRow:
    """Return an envelope of a link."""
    return EnvelopeRow(id, "acme", link, "1", '{"schema_version": "1"}', NOW)


def payload_row(number: int) -> PayloadRow:
    """Return a payload whose hash is made of a number."""
    return PayloadRow("acme", f"{number:064x}", "jcs-1", "tool", f'{{"kind":"tool","name":"tool {number}"}}')


async def a_registration_is_kept_once_for_its_hash(make: Make) -> None:
    """Check that first id, profile and time stay, the newest name counts, and the last registered is the latest."""
    async with open_store(make) as store:
        lineage = store.lineage
        expect(await lineage.latest_registration("acme", "agent-1"), None, "the latest of an unknown agent")
        expect(await lineage.register(_A), _A, "the first registration")
        expect(await lineage.register(_B), _B, "the registration of another hash")
        expect(await lineage.latest_registration("acme", "agent-1"), _B, "the latest after that")
        repeated = replace(_A, id="id-3", agent_name="writer", profile="jcs-2", created_at=LATER)
        stored = replace(_A, agent_name="writer")
        for _ in range(2):
            expect(await lineage.register(repeated), stored, "the first hash, registered again")
            expect(await lineage.latest_registration("acme", "agent-1"), stored, "the latest after that")
        expect(await lineage.register(replace(_B, id="id-4")), _B, "the other hash, registered again")
        expect(await lineage.latest_registration("acme", "agent-1"), _B, "the latest in the end")


async def registrations_of_other_orgs_and_agents_are_apart(make: Make) -> None:
    """Check equal ids, agents and hashes in several orgs; in one org, a second registration of an id is refused."""
    async with open_store(make) as store:
        others = [_A, replace(_A, org="other"), replace(_A, org=None), replace(_A, id="id-3", agent_id="agent-2")]
        for number, row in enumerate(others):
            named = replace(row, agent_name=f"name {number}")
            expect(await store.lineage.register(named), named, f"the registration of {row.org} and {row.agent_id}")
        for number, row in enumerate(others):
            latest = await store.lineage.latest_registration(row.org, row.agent_id)
            expect(latest, replace(row, agent_name=f"name {number}"), f"the latest of {row.org} and {row.agent_id}")
        await expect_error(StoreError, store.lineage.register(replace(_B, id="id-1")), "a second registration of an id")
        latest = await store.lineage.latest_registration("acme", "agent-1")
        expect(latest and latest.static_hash, "a" * 64, "the latest after that")


async def concurrent_registrations_give_one_row(make: Make) -> None:
    """All concurrent registrations of one hash get the same row."""
    async with open_store(make) as store:
        rows = [replace(_A, id=f"id-{number}") for number in range(50)]
        registered = await asyncio.gather(*[store.lineage.register(row) for row in rows])
        expect(len(set(registered)), 1, "the number of different rows returned")
        expect(await store.lineage.latest_registration("acme", "agent-1"), registered[0], "the stored row")


async def a_turn_comes_back_as_it_was_given(make: Make) -> None:
    """Check link, envelope and payloads, with and without an org and a session."""
    async with open_store(make) as store:
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
            turn_envelope = replace(envelope, org=link.org)
            payloads = [replace(payload_row(number), org=link.org) for number in range(3)]
            expect(
                await lineage.record_turn(link, turn_envelope, payloads=iter(payloads)),
                None,
                "the first turn's transition",
            )
            expect(await lineage.link(link.org, "link-1"), link, "the link")
            expect(_code(await lineage.link(link.org, "link-1")), _code(link), "the code behind the link's tools")
            expect(await lineage.envelope(link.org, "id-1"), turn_envelope, "the envelope")
            expect(await lineage.envelope_of(link.org, "link-1"), turn_envelope, "the link's envelope")
            for row in payloads:
                expect(await lineage.payload(link.org, row.hash), row, "a payload")
        expect(await lineage.link("other", "link-1"), None, "the link for another org")
        expect(await lineage.link("acme", "link-2"), None, "a link that was not recorded")
        expect(await lineage.latest_link("acme", "session-2"), None, "the latest link of a session without any")


def _code(link: LinkRow | None) -> list[str | None]:
    """Return the hashes of code on a link, which equality of references ignores."""
    return [] if link is None else [ref.code for ref in link.tool_refs]


async def a_turn_is_kept_whole_or_not_at_all(make: Make) -> None:
    """Check that a refused turn leaves nothing: neither link nor envelope, payload nor transition."""
    async with open_store(make) as store:
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
    """Check the order by id, pages and filters."""
    async with open_store(make) as store:
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
            links = (await store.lineage.links(query)).items
            expect([row.id for row in links], [f"link-{digit}" for digit in ids], f"what {query} finds")


async def a_session_has_so_many_links(make: Make) -> None:
    """Check the limit for concurrent turns.

    Links of other sessions, of none and of other orgs do not count, and neither do those without an envelope.
    """
    async with open_store(make) as store:

        async def record(id: str, session: str | None = "session-1", org: str = "acme") -> bool:
            try:
                envelope = replace(envelope_row(f"e {id}", id), org=org)
                await store.lineage.record_turn(link_row(id, session=session, org=org), envelope, max_links=3)
            except LinksFull:
                return False
            return True

        for number in range(4):
            await store.lineage.record_turn(link_row(f"turn-{number}"))
        outcomes = await asyncio.gather(*[record(f"link-{number}") for number in range(9)])
        expect(outcomes.count(True), 3, "how many links were recorded")
        expect(len((await store.lineage.links(LinkQuery("acme"))).items), 7, "how many there are")
        expect(await record("other", "session-2"), True, "a link of another session")
        expect(await record("other", org="other"), True, "a link of another org")
        for number in range(4):
            expect(await record(f"of none {number}", None), True, "a link of no session")
        await store.lineage.record_turn(link_row("more"))
        expect(await record("even more"), False, "a link beyond the limit")


async def pages_of_links_end_by_their_size(make: Make) -> None:
    """Check that a page has at least one link, and that the next pages have the rest."""
    async with open_store(make) as store:
        sizes = (10, 9_000, 3_000, 3_000, 10)
        rows = [
            replace(link_row(f"link-{number}"), metadata=json.dumps({"text": "x" * size}))
            for number, size in enumerate(sizes)
        ]
        for row in rows:
            await store.lineage.record_turn(row)
        page = await store.lineage.links(LinkQuery("acme", max_bytes=8_000))
        expect(page.items, (rows[4], rows[3], rows[2]), "the first page")
        page = await store.lineage.links(LinkQuery("acme", before=page.next, max_bytes=8_000))
        expect((page.items, page.next), ((rows[1],), "link-1"), "a page of one large link")
        page = await store.lineage.links(LinkQuery("acme", before=page.next, max_bytes=8_000))
        expect((page.items, page.next), ((rows[0],), None), "the last page")


async def links_outlive_their_session(make: Make) -> None:
    """Check that links, like records, outlive it, with their envelopes and transitions."""
    async with open_store(make) as store:
        await store.sessions.create(session_row("session-1", "acme"))
        await store.lineage.record_turn(link_row("link-1"), envelope_row("id-1", "link-1"))
        moved = await store.lineage.record_turn(link_row("link-2", runtime="b"))
        await store.sessions.delete("session-1")
        expect(await store.lineage.transitions("acme", "session-1"), (moved,), "the transitions")
        expect(await store.lineage.latest_link("acme", "session-1"), link_row("link-2", runtime="b"), "the latest link")
        expect(await store.lineage.envelope_of("acme", "link-1"), envelope_row("id-1", "link-1"), "the envelope")


async def a_transition_is_kept_when_the_runtime_hash_moves(make: Make) -> None:
    """Check transitions from the session's last recorded link, regardless of id order and other sessions."""
    async with open_store(make) as store:
        lineage = store.lineage

        async def turn(id: str, runtime: str, reason: str = "") -> TransitionRow | None:
            return await lineage.record_turn(link_row(id, runtime=runtime), reason=reason)

        expect(await turn("link-5", "a", "first"), None, "the first turn")
        expect(await turn("link-9", "a"), None, "a turn with the same hash")
        first = TransitionRow("acme", "session-1", "link-9", "link-2", "a tool came", NOW)
        expect(await turn("link-2", "b", "a tool came"), first, "a turn with another hash, and with an older id")
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
        expect(await lineage.transitions("acme", "session-1"), (first, two), "the session's transitions")
        expect((await lineage.latest_link("acme", "session-1")), link_row("link-0", runtime="a"), "its latest link")
        for org, session in (("acme", "session-2"), ("other", "session-1"), (None, "session-1")):
            expect(await lineage.transitions(org, session), (), f"the transitions of {session} in {org}")


async def concurrent_turns_of_a_session_make_a_chain(make: Make) -> None:
    """Each transition begins where the previous one ended, and none is missing."""
    async with open_store(make) as store:
        rows = [link_row(f"link-{number:02}", runtime="abc"[number % 3]) for number in range(60)]
        recorded = await asyncio.gather(*[store.lineage.record_turn(row, envelope_row(row.id, row.id)) for row in rows])
        transitions = await store.lineage.transitions("acme", "session-1")
        moved = [transition for transition in recorded if transition]
        expect(
            sorted(transition.to_link for transition in transitions),
            sorted(transition.to_link for transition in moved),
            "the returned transitions",
        )
        expect(bool(transitions), True, "whether there are transitions")
        hashes = {row.id: row.runtime_hash for row in rows}
        for transition in transitions:
            expect(
                hashes[transition.from_link] != hashes[transition.to_link],
                True,
                f"whether a hash moved by {transition}",
            )
        for transition, following in pairwise(transitions):
            # Links between two transitions have the hash that the first of the two leads to.
            expect(hashes[following.from_link], hashes[transition.to_link], f"the hash that {following} begins with")
        last = await store.lineage.latest_link("acme", "session-1")
        expect(last and last.runtime_hash, hashes[transitions[-1].to_link], "the hash of the latest link")
        expect(len((await store.lineage.links(LinkQuery("acme", limit=100))).items), 60, "how many links there are")


async def a_transition_can_be_recorded_by_itself(make: Make) -> None:
    """Check that both links must be in its org, and that the last 1,000 of a session are returned."""
    async with open_store(make) as store:
        lineage = store.lineage
        await lineage.record_turn(link_row("link-1"))
        await lineage.record_turn(link_row("link-2"))
        row = TransitionRow("acme", "session-9", "link-1", "link-2", "by hand", LATER)
        for wrong in (replace(row, from_link="link-3"), replace(row, to_link="link-3"), replace(row, org=None)):
            await expect_error(StoreError, lineage.record_transition(wrong), f"recording {wrong}")
        expect(await lineage.transitions("acme", "session-9"), (), "the refused transitions")
        rows = [replace(row, reason=str(number)) for number in range(1003)]
        for transition in rows[:3]:
            await lineage.record_transition(transition)
        expect(await lineage.transitions("acme", "session-9"), tuple(rows[:3]), "the transitions")
        await asyncio.gather(*[lineage.record_transition(later) for later in rows[3:-1]])
        await lineage.record_transition(rows[-1])
        transitions = await lineage.transitions("acme", "session-9")
        expect(
            (len(transitions), set(transitions), transitions[-1]),
            (1000, set(rows[3:]), rows[-1]),
            "the last transitions",
        )


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


async def links_that_name_a_hash_are_found(make: Make) -> None:
    """Check links found by each of their hashes, newest first, with the time since which all were examined."""
    async with open_store(make) as store:
        for number, runtime in enumerate("abab"):
            row = link_row(f"l-{number}", session=f"s-{number}", runtime=runtime)
            await store.lineage.record_turn(replace(row, created_at=f"2026-01-0{number + 1}T00:00:00.000000Z"))
        await store.lineage.record_turn(link_row("l-9", org=None))

        async def find_links(
            hash: str, max_searched: int = 9, org: str | None = "acme"
        ) -> tuple[list[str], str | None]:
            page = await store.lineage.sightings(org, hash, max_searched=max_searched)
            return [sighting.link for sighting in page.items], page.since and page.since[8:10]

        expect(await find_links("a" * 64), (["l-2", "l-0"], None), "links with a runtime hash")
        every = ["l-3", "l-2", "l-1", "l-0"]
        for digit in "1234":  # of the agent, the prompt and two tools
            expect(await find_links(digit * 64), (every, None), f"links with the hash {digit}…")
        expect(await find_links("1" * 64, org=None), (["l-9"], None), "links of no org")
        expect(await find_links("f" * 64), (list[str](), None), "links with a hash that none has")
        expect(
            await find_links("a" * 64, max_searched=4), (["l-2", "l-0"], None), "exactly as many links as are examined"
        )
        expect(await find_links("a" * 64, max_searched=3), (["l-2"], "02"), "a limit below the number of links")
        sightings = await store.lineage.sightings("acme", "b" * 64)
        expected = Sighting("l-3", "s-3", "agent-1", "scribe", "2026-01-04T00:00:00.000000Z")
        expect(sightings.items[0], expected, "the sighting of a link")
