"""Whatever hash a record names, what it covers is kept, without a write for each call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from capset import Agent, Capability, Kernel, Principal, tool
from capset.fingerprint.canonical import digest, read
from capset.stores.base import AuditQuery, PayloadRow
from capset_testing import FakeClock
from tests.waiting import until

ADA = Principal("ada", org="acme")


@tool(effect="write")
async def put(text: str) -> str:
    """Put something there."""
    return text


def agent(prompt: str = "Keep a shelf.") -> Agent:
    """Return an agent with a capability."""
    return Agent("keeper", system_prompt=prompt, uses=[Capability("shelf", tools=[put])])


@pytest.mark.spec("F36")
async def test_every_hash_of_a_record_resolves_after_its_agent_was_changed(store: str) -> None:
    async with Kernel(store) as kernel:
        for prompt in ("Keep a shelf.", "Keep two."):
            async with kernel.open(agent(prompt), principal=ADA) as session:
                await session.call(put, text="milk")
        await kernel.audit.flush()
    async with Kernel(store) if store != "memory://" else kernel as later:
        records = (await later.audit.query(AuditQuery(org="acme"))).items
        assert len({record.static_hash for record in records}) == 2
        for record in records:
            hashes = (record.static_hash, record.runtime_hash, record.prompt_hash, record.tool_hash, record.code_hash)
            for name in filter(None, hashes):
                row = await later.store.lineage.payload("acme", name)
                assert row is not None, f"{name} of {record}"
                assert digest(read(row.payload)) == name
                assert await later.store.lineage.payload("other", name) is None, "it is the organisation's own"
            definition = await later.store.lineage.payload("acme", record.static_hash)
            assert definition is not None
            (capability,) = read(definition.payload)["capabilities"]
            assert await later.store.lineage.payload("acme", capability["hash"]) is not None


@pytest.mark.spec("F36")
async def test_an_opening_and_a_call_of_what_is_kept_write_nothing_more(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[PayloadRow] = []
    async with Kernel(store) as kernel:
        record = kernel.store.lineage.record_payloads

        async def record_payloads(payloads: Iterable[PayloadRow], *, named_at: str) -> None:
            rows = [*payloads]
            written.extend(rows)
            await record(rows, named_at=named_at)

        monkeypatch.setattr(kernel.store.lineage, "record_payloads", record_payloads)
        for prompt, principal in (("One.", ADA), ("One.", ADA), ("One.", replace(ADA, id="eve")), ("Two.", ADA)):
            async with kernel.open(agent(prompt), principal=principal) as session:
                for text in ("a", "b"):
                    await session.call(put, text=text)
    kinds = [row.kind for row in written]
    assert (kinds.count("agent"), kinds.count("tool")) == (2, 1), "the agents share their tool"
    assert len({row.hash for row in written}) == len(written), "each once"


@pytest.mark.spec("F36")
async def test_what_was_stored_is_stored_again_the_next_day_and_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[set[str]] = []
    clock = FakeClock()
    async with Kernel("memory://", clock=clock) as kernel:

        async def record_payloads(payloads: Iterable[PayloadRow], *, named_at: str) -> None:
            attempts.append({row.hash for row in payloads})
            if len(attempts) == 1:
                raise RuntimeError("the disk is gone")

        async def open_until(count: int) -> None:
            async with kernel.open(agent(), principal=ADA):
                await until(lambda: len(attempts) == count)

        monkeypatch.setattr(kernel.store.lineage, "record_payloads", record_payloads)
        for count in (1, 2, 2):
            await open_until(count)
        clock.advance(86_400)
        await open_until(3)
    assert "the disk is gone" in caplog.text
    assert attempts == [attempts[0]] * 3
