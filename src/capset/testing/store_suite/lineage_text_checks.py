"""Checks of texts that no database can store: NUL, which PostgreSQL cannot hold, and lone surrogates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Final, TypeVar

from capset.errors import StateError
from capset.fingerprint.hashes import Ref
from capset.stores.base import EnvelopeRow, LinkQuery, LinkRow, PayloadRow, RegistrationRow, Store, TransitionRow
from capset.testing.store_suite.lineage_rows import envelope_row, link_row, payload_row
from capset.testing.store_suite.support import NOW, Check, Make, expect, expect_error, opened

_Row = TypeVar("_Row", RegistrationRow, LinkRow, EnvelopeRow, TransitionRow, PayloadRow)

_TEXTS: Final = ("\ud800", "a\0b")
_REGISTRATION: Final = RegistrationRow("id-1", "acme", "agent-1", "scribe", "a" * 64, "jcs-1", NOW)
_TRANSITION: Final = TransitionRow("acme", "session-1", "link-1", "link-1", "", NOW)


async def every_text_of_lineage_is_one_that_databases_keep(make: Make) -> None:
    """Refuse any other text, in any field, and store nothing beside it."""
    async with opened(make) as store:
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
    """Check that queries with such a text do not fail either."""
    async with opened(make) as store:
        lineage = store.lineage
        await lineage.record_turn(link_row("link-1"), envelope_row("id-1", "link-1"))
        for text in _TEXTS:
            for org, of in (("acme", text), (text, "link-1")):
                found = [
                    await lineage.latest_registration(org, of),
                    await lineage.link(org, of),
                    await lineage.latest_link(org, of),
                    await lineage.envelope(org, of),
                    await lineage.envelope_of(org, of),
                    await lineage.payload(org, of),
                ]
                expect(found, [None] * 6, f"what is found by {of!r} in {org!r}")
                expect(await lineage.transitions(org, of), (), f"the transitions of {of!r} in {org!r}")
            for query in (
                LinkQuery(text),
                LinkQuery("acme", agent_id=text),
                LinkQuery("acme", session=text),
                LinkQuery("acme", before=text),
            ):
                expect((await lineage.links(query)).items, (), f"what {query} finds")


def _writes(store: Store, text: str) -> Sequence[Callable[[], Awaitable[object]]]:
    """Return every write with this text, each in one field."""
    lineage = store.lineage
    link, envelope, payload = link_row("link-2"), envelope_row("id-1", "link-1"), payload_row(1)
    own = envelope_row("id-1", "link-2")

    def put(row: _Row, *but: str) -> Sequence[_Row]:
        return [replace(row, **{one.name: text}) for one in fields(row) if one.name not in but]

    links = [*put(link, "tool_refs"), *[replace(link, tool_refs=(ref,)) for ref in (Ref(text, "1"), Ref("name", text))]]
    return [
        *[partial(lineage.register, row) for row in put(_REGISTRATION)],
        *[partial(lineage.record_turn, row, payloads=[payload_row(0)]) for row in links],
        partial(lineage.record_turn, link, reason=text),
        partial(lineage.record_turn, link, replace(own, body=text), payloads=[payload_row(0)]),
        partial(lineage.record_turn, link, own, payloads=[payload_row(0), replace(payload, payload=text)]),
        *[partial(lineage.record_envelope, row) for row in put(envelope)],
        *[partial(lineage.record_transition, row) for row in put(_TRANSITION)],
        *[partial(lineage.record_payloads, [payload_row(0), row]) for row in put(payload)],
    ]


CHECKS: Final[tuple[Check, ...]] = (
    every_text_of_lineage_is_one_that_databases_keep,
    nothing_is_found_by_a_text_that_no_database_keeps,
)
