"""Lineage against a model, whatever is recorded in whatever order, in every store (spec 2, F28–F29)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset.errors import StoreError
from capset.stores.base import (
    EnvelopeRow,
    LinkQuery,
    LinkRow,
    PayloadRow,
    RegistrationRow,
    Store,
    TransitionRow,
    make_store,
)
from capset.stores.sql import open_postgres
from capset_testing.store_suite.lineage_checks import envelope_row, link_row, payload_row
from capset_testing.store_suite.support import NOW
from tests.databases import Server
from tests.examples import examples

numbers = count()
FEW = st.integers(0, 3)


@dataclass(frozen=True)
class Turn:
    """What ``record_turn`` is given: numbers, so that ids, sessions and hashes meet."""

    link: int
    session: int | None
    agent: int
    runtime: int
    envelope: int | None
    payloads: tuple[tuple[int, int], ...]

    def rows(self, org: str) -> tuple[LinkRow, EnvelopeRow | None, Sequence[PayloadRow]]:
        session = None if self.session is None else f"session-{self.session}"
        link = replace(link_row(f"link-{self.link}", session=session, org=org), agent_id=f"agent-{self.agent}")
        link = replace(link, runtime_hash=f"{self.runtime:064x}")
        envelope = None if self.envelope is None else replace(envelope_row(f"id-{self.envelope}", link.id), org=org)
        payloads = [replace(payload_row(number), org=org, payload=str(text)) for number, text in self.payloads]
        return link, envelope, payloads


TURNS = st.lists(
    st.builds(
        Turn,
        link=st.integers(0, 12),
        session=st.none() | st.integers(0, 1),
        agent=st.integers(0, 1),
        runtime=st.integers(0, 2),
        envelope=st.none() | st.integers(0, 9),
        payloads=st.lists(st.tuples(FEW, FEW), max_size=3).map(tuple),
    ),
    max_size=14,
)

REGISTRATIONS = st.lists(st.tuples(st.integers(0, 1), FEW, FEW), max_size=16)
"""Of each: which agent, which hash, which name."""


@dataclass
class Model:
    """What must be there, in the order in which it was recorded."""

    links: list[LinkRow] = field(default_factory=list[LinkRow])
    envelopes: list[EnvelopeRow] = field(default_factory=list[EnvelopeRow])
    payloads: dict[str, PayloadRow] = field(default_factory=dict[str, PayloadRow])
    transitions: list[TransitionRow] = field(default_factory=list[TransitionRow])

    def record(
        self, link: LinkRow, envelope: EnvelopeRow | None, payloads: Sequence[PayloadRow]
    ) -> TransitionRow | str | None:
        """Return the transition, or why the turn is refused."""
        if link.id in [other.id for other in self.links]:
            return f"there is already a link {link.id!r}"
        if envelope and envelope.id in [other.id for other in self.envelopes]:
            return f"there is already an envelope {envelope.id!r}"
        before = [other for other in self.links if other.session == link.session and link.session is not None]
        self.links.append(link)
        self.envelopes += [envelope] if envelope else []
        for row in payloads:
            self.payloads.setdefault(row.hash, row)
        if not before or before[-1].runtime_hash == link.runtime_hash:
            return None
        moved = TransitionRow(link.org, str(link.session), before[-1].id, link.id, "why", link.created_at)
        self.transitions.append(moved)
        return moved


@dataclass
class Stores:
    """Stores that are open."""

    runner: asyncio.Runner
    all: Sequence[Store]


@contextmanager
def opened(*stores: Store) -> Generator[Stores]:
    with asyncio.Runner() as runner:
        for store in stores:
            runner.run(store.open())
        yield Stores(runner, stores)
        for store in stores:
            runner.run(store.close())


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stores]:
    file = tmp_path_factory.mktemp("lineage") / "a.db"
    with opened(make_store("memory://"), make_store(f"sqlite:///{file}")) as opened_stores:
        yield opened_stores


@pytest.fixture(scope="module")
def server(postgres: Server) -> Generator[Stores]:
    with postgres.database() as url, opened(open_postgres(url)) as opened_stores:
        yield opened_stores


async def run_turns(store: Store, turns: list[Turn]) -> None:
    """Record turns in an org of their own, and find what the model says."""
    org = f"org-{next(numbers)}"
    lineage, model = store.lineage, Model()
    for turn in turns:
        link, envelope, payloads = turn.rows(org)
        expected = model.record(link, envelope, payloads)
        if isinstance(expected, str):
            with pytest.raises(StoreError, match=expected):
                await lineage.record_turn(link, envelope, reason="why", payloads=payloads)
        else:
            assert await lineage.record_turn(link, envelope, reason="why", payloads=payloads) == expected
    for session in ("session-0", "session-1"):
        links = [link for link in model.links if link.session == session]
        assert await lineage.latest_link(org, session) == (links[-1] if links else None)
        moved = tuple(transition for transition in model.transitions if transition.session == session)
        assert await lineage.transitions(org, session) == moved
    for number in range(10):
        matching = [stored for stored in model.envelopes if stored.id == f"id-{number}"]
        assert await lineage.envelope(org, f"id-{number}") == (matching[0] if matching else None)
    for link in model.links:
        assert await lineage.link(org, link.id) == link
        of_link = [stored for stored in model.envelopes if stored.link == link.id]
        assert await lineage.envelope_of(org, link.id) == (of_link[0] if of_link else None)
    for number in range(4):
        row = payload_row(number)
        assert await lineage.payload(org, row.hash) == model.payloads.get(row.hash)
    for agent in (None, "agent-0", "agent-1"):
        for session in (None, "session-0"):
            assert await pages(store, org, agent, session) == sorted(
                [
                    candidate
                    for candidate in model.links
                    if agent in (None, candidate.agent_id) and session in (None, candidate.session)
                ],
                key=lambda candidate: candidate.id,
                reverse=True,
            )


@pytest.mark.nightly
@pytest.mark.spec("F28", "F29")
@settings(max_examples=100, deadline=None)
@given(TURNS)
def test_turns_leave_what_the_model_says(stores: Stores, turns: list[Turn]) -> None:
    for store in stores.all:
        stores.runner.run(run_turns(store, turns))


@pytest.mark.spec("F28", "F29", "P30")
@settings(max_examples=20, deadline=None)  # each asks the server some hundred times
@given(TURNS)
def test_turns_leave_on_a_server_what_the_model_says(server: Stores, turns: list[Turn]) -> None:
    for store in server.all:
        server.runner.run(run_turns(store, turns))


async def pages(store: Store, org: str, agent: str | None, session: str | None) -> list[LinkRow]:
    """Return all links of a query, three at a time."""
    links: list[LinkRow] = []
    before: str | None = None
    while True:
        page = await store.lineage.links(LinkQuery(org, agent, session, limit=3, before=before))
        links += page.items
        assert len(page.items) == 3 or page.next is None
        if page.next is None:
            return links
        before = page.next


async def run_registrations(store: Store, registrations: list[tuple[int, int, int]]) -> None:
    """Register in an org of its own, and find the latest of each agent."""
    org = f"org-{next(numbers)}"
    first: dict[tuple[str, str], RegistrationRow] = {}
    latest: dict[str, RegistrationRow] = {}
    for number, (agent, static, name) in enumerate(registrations):
        row = RegistrationRow(
            f"id-{number}", org, f"agent-{agent}", f"name-{name}", f"{static:064x}", "jcs-1", f"{NOW}-{number}"
        )
        registered = first.setdefault((row.agent_id, row.static_hash), row)
        latest[row.agent_id] = replace(registered, agent_name=row.agent_name)
        assert await store.lineage.register(row) == latest[row.agent_id]
        for agent_id in ("agent-0", "agent-1"):
            assert await store.lineage.latest_registration(org, agent_id) == latest.get(agent_id)


@pytest.mark.spec("F29")
@examples(25, 100)
@given(REGISTRATIONS)
def test_registrations_leave_what_the_model_says(stores: Stores, registrations: list[tuple[int, int, int]]) -> None:
    for store in stores.all:
        stores.runner.run(run_registrations(store, registrations))


@pytest.mark.spec("F29", "P30")
@settings(max_examples=20, deadline=None)
@given(REGISTRATIONS)
def test_registrations_leave_on_a_server_what_the_model_says(
    server: Stores, registrations: list[tuple[int, int, int]]
) -> None:
    for store in server.all:
        server.runner.run(run_registrations(store, registrations))
