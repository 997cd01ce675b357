"""Checks of single envelopes and of payloads, and of texts that no database can store: NUL, and lone surrogates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Final, TypeVar, cast

from capset.errors import StateError, StoreError
from capset.fingerprint.hashes import Ref
from capset.stores.base import (
    EnvelopeRow,
    LinkQuery,
    LinkRow,
    PayloadKind,
    PayloadRow,
    RegistrationRow,
    Store,
    TransitionRow,
)
from capset_testing.store_suite.lineage_checks import envelope_row, link_row, payload_row
from capset_testing.store_suite.support import LATER, NOW, Make, expect, expect_error, open_store

_Row = TypeVar("_Row", RegistrationRow, LinkRow, EnvelopeRow, TransitionRow, PayloadRow)

_TEXTS: Final = ("\ud800", "a\0b")
_REGISTRATION: Final = RegistrationRow("id-1", "acme", "agent-1", "scribe", "a" * 64, "jcs-1", NOW)
_TRANSITION: Final = TransitionRow("acme", "session-1", "link-1", "link-1", "", NOW)


async def an_envelope_comes_back_as_it_was_given(make: Make) -> None:
    """Check envelopes of any length, with and without a link; the last one of a link is the link's envelope."""
    long = '{"é":"' + "Grüße, 世界 🌍 \U0010ffff'\"%_\\\\u0000" * 200_000 + '"}'
    async with open_store(make) as store:
        lineage = store.lineage
        await lineage.record_turn(link_row("link-1"))
        expect(await lineage.envelope_of("acme", "link-1"), None, "the envelope of a link that has none")
        alone = replace(envelope_row("id-3"), link=None)
        rows = [envelope_row("id-2", "link-1"), replace(envelope_row("id-1", "link-1"), body=long), alone]
        for row in rows:
            await lineage.record_envelope(row)
        for row in rows:
            expect(await lineage.envelope("acme", row.id) == row, True, f"whether {row.id} is unchanged")
            expect(await lineage.envelope(None, row.id), None, f"{row.id} for another org")
        expect((await lineage.envelope_of("acme", "link-1")) == rows[1], True, "whether the last one is the link's")
        expect(await lineage.envelope_of(None, "link-1"), None, "the link's envelope for another org")


async def an_envelope_that_cannot_be_is_refused(make: Make) -> None:
    """Check that an envelope's id must be free, and its link in its org; stored rows stay."""
    async with open_store(make) as store:
        await store.lineage.record_turn(link_row("link-1"))
        envelope = envelope_row("id-1", "link-1")
        await store.lineage.record_envelope(envelope)
        wrong: list[EnvelopeRow] = [
            replace(envelope, body="{}"),
            envelope_row("id-2", "link-2"),
            replace(envelope_row("id-2", "link-1"), org="other"),
            replace(envelope_row("id-2", "link-1"), org=None),
        ]
        for row in wrong:
            await expect_error(StoreError, store.lineage.record_envelope(row), f"recording {row}")
            expect(await store.lineage.envelope(row.org, "id-2"), None, "the refused envelope")
        expect(await store.lineage.envelope_of("acme", "link-1"), envelope, "the first envelope")
        await store.lineage.record_envelope(replace(envelope, org="other", link=None))  # an id is unique per org


async def a_payload_is_kept_once_for_its_hash(make: Make) -> None:
    """Check that an org keeps the first payload of each hash, in any number and combination."""
    async with open_store(make) as store:
        lineage = store.lineage
        await lineage.record_payloads([], named_at=NOW)
        await lineage.record_payloads([payload_row(number) for number in range(1200)], named_at=NOW)
        repeated = [replace(payload_row(number), payload="{}") for number in (0, 1300, 1300)]
        repeated[2] = replace(repeated[2], payload="[]")
        await lineage.record_payloads([*repeated, replace(payload_row(0), org=None, payload="null")], named_at=LATER)
        for number in (0, 1199):
            expect(await lineage.payload("acme", payload_row(number).hash), payload_row(number), "the first payload")
        expect(await lineage.payload("acme", payload_row(1300).hash), repeated[1], "the first of two in one call")
        payload = await lineage.payload(None, payload_row(0).hash)
        expect(
            payload and (payload.org, payload.payload), (None, "null"), "the payload of the same hash in another org"
        )
        expect(await lineage.payload("other", payload_row(0).hash), None, "a payload of an org that has none")
        expect(await lineage.payload("acme", "f" * 64), None, "a payload that was not stored")


async def an_invocation_is_never_kept(make: Make) -> None:
    """Check that a payload of an unknown kind is refused: alone, among others, or with a turn."""
    async with open_store(make) as store:
        wrong = replace(payload_row(1), kind=cast("PayloadKind", "invocation"))
        await expect_error(
            StoreError, store.lineage.record_payloads([payload_row(0), wrong], named_at=NOW), "an invocation"
        )
        turn = store.lineage.record_turn(link_row("link-1"), payloads=[payload_row(0), wrong])
        await expect_error(StoreError, turn, "a turn with an invocation")
        for number in (0, 1):
            expect(await store.lineage.payload("acme", payload_row(number).hash), None, "a refused payload")
        expect(await store.lineage.link("acme", "link-1"), None, "the refused turn")


async def every_text_of_lineage_is_one_that_databases_keep(make: Make) -> None:
    """Check that any other text is refused, in any field, and that nothing is stored with it."""
    async with open_store(make) as store:
        await store.lineage.record_turn(link_row("link-1"))
        for text in _TEXTS:
            for number, write in enumerate(_writes(store, text)):
                error = await expect_error(StateError, write(), f"write {number} of {text!r}")
                expect(error.status, 400, "its status")
        expect((await store.lineage.links(LinkQuery("acme"))).items, (link_row("link-1"),), "the links")
        expect(await store.lineage.latest_registration("acme", "agent-1"), None, "the registrations")
        expect(await store.lineage.envelope_of("acme", "link-1"), None, "the envelopes")
        expect(await store.lineage.transitions("acme", "session-1"), (), "the transitions")
        expect(await store.lineage.payload("acme", payload_row(0).hash), None, "the payloads")


async def nothing_is_found_by_a_text_that_no_database_keeps(make: Make) -> None:
    """Check that queries with such a text find nothing and do not fail."""
    async with open_store(make) as store:
        lineage = store.lineage
        await lineage.record_turn(link_row("link-1"), envelope_row("id-1", "link-1"))
        for text in _TEXTS:
            for org, of in (("acme", text), (text, "link-1")):
                lookups = [
                    await lineage.latest_registration(org, of),
                    await lineage.link(org, of),
                    await lineage.latest_link(org, of),
                    await lineage.envelope(org, of),
                    await lineage.envelope_of(org, of),
                    await lineage.payload(org, of),
                ]
                expect(lookups, [None] * 6, f"what is found by {of!r} in {org!r}")
                expect(await lineage.transitions(org, of), (), f"the transitions of {of!r} in {org!r}")
            for query in (
                LinkQuery(text),
                LinkQuery("acme", agent_id=text),
                LinkQuery("acme", session=text),
                LinkQuery("acme", before=text),
            ):
                expect((await lineage.links(query)).items, (), f"what {query} finds")


def _writes(store: Store, text: str) -> Sequence[Callable[[], Awaitable[object]]]:
    """Return writes that have ``text`` in one field each, for every field."""
    lineage = store.lineage
    link, envelope, payload = link_row("link-2"), envelope_row("id-1", "link-1"), payload_row(1)
    second_envelope = envelope_row("id-1", "link-2")

    def put(row: _Row, *but: str) -> Sequence[_Row]:
        return [replace(row, **{field.name: text}) for field in fields(row) if field.name not in but]

    links = [*put(link, "tool_refs"), *[replace(link, tool_refs=(ref,)) for ref in (Ref(text, "1"), Ref("name", text))]]
    return [
        *[partial(lineage.register, row) for row in put(_REGISTRATION)],
        *[partial(lineage.record_turn, row, payloads=[payload_row(0)]) for row in links],
        partial(lineage.record_turn, link, reason=text),
        partial(lineage.record_turn, link, replace(second_envelope, body=text), payloads=[payload_row(0)]),
        partial(lineage.record_turn, link, second_envelope, payloads=[payload_row(0), replace(payload, payload=text)]),
        *[partial(lineage.record_envelope, row) for row in put(envelope)],
        *[partial(lineage.record_transition, row) for row in put(_TRANSITION)],
        *[partial(lineage.record_payloads, [payload_row(0), row], named_at=NOW) for row in put(payload)],
    ]
