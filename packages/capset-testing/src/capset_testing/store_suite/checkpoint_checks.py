"""Checks of the log as a whole: checkpoints, retention and reading in chain order (spec 4, G21, G22)."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import Final

from capset.errors import Conflict
from capset.fingerprint.chain import verify
from capset.fingerprint.checkpoints import CheckpointKey
from capset.stores.base import AuditQuery, LinkQuery, MeasuredCall, PayloadRow, Pruned, Store
from capset_testing.store_suite.lineage_checks import envelope_row, link_row
from capset_testing.store_suite.support import LATER, NOW, Make, entry, expect, expect_error, intent, open_store

_OLD: Final = "2025-01-01T00:00:00.000000Z"
_NOTHING: Final = list[int | None]()


async def _fill(store: Store, first: int, last: int, time: str) -> None:
    for number in range(first, last + 1):
        store.audit.append(entry(f"a{number}", time=time))
    await store.audit.flush()


async def a_checkpoint_covers_all_that_was_taken(make: Make) -> None:
    """Check that the checkpoint is stored, and remains the newest one until more entries come."""
    key = CheckpointKey.generate()
    async with open_store(make) as store:
        expect(await store.audit.checkpoint(key, now=NOW), None, "the checkpoint of an empty log")
        expect((await store.audit.verify([key.public])).ok, False, "whether a log without checkpoints is verified")
        store.audit.append(entry("a1"))
        store.audit.append(entry("a2"))
        first = await store.audit.checkpoint(key, now=NOW)
        expect(first and (first.number, first.seq, first.since, first.time), (1, 2, 1, NOW), "the first checkpoint")
        expect(await store.audit.checkpoint(key, now=LATER), first, "the checkpoint when nothing was added since")
        await store.audit.commit(entry("a3"))
        second = await store.audit.checkpoint(key, now=LATER)
        expect(second and (second.number, second.seq, second.time), (2, 3, LATER), "the second checkpoint")
        expect(list(await store.audit.checkpoints()), [first, second], "the checkpoints")
        expect(list(await store.audit.checkpoints(after=1)), [second], "the checkpoints after the first")
        expect(list(await store.audit.checkpoints(limit=1)), [first], "one checkpoint")
        await store.audit.commit(entry("a4"))
        by_key = await store.audit.verify([key.public])
        by_checkpoint = await store.audit.verify([key.public], [second] if second else [])
        other = await store.audit.verify([CheckpointKey.generate().public])
    expect((by_key.problem, by_key.checked, by_key.covered), (None, 4, 3), "the chain, verified with the key")
    expect(by_checkpoint, by_key, "the chain, verified with a kept checkpoint")
    expect((other.ok, "another key" in str(other.problem)), (False, True), "the chain, verified with another key")


async def another_key_signs_anew(make: Make) -> None:
    """Another key gets its own checkpoint, and both keys together verify the log."""
    key = CheckpointKey.generate()
    new = CheckpointKey.generate()
    async with open_store(make) as store:
        await store.audit.commit(entry("a"))
        await store.audit.checkpoint(key, now=NOW)
        checkpoint = await store.audit.checkpoint(new, now=NOW)
        expect(checkpoint and (checkpoint.number, checkpoint.key), (2, new.public.id), "the new key's checkpoint")
        expect((await store.audit.verify([key.public, new.public])).covered, 1, "the covered records")


async def a_chain_is_verified_in_parts(make: Make) -> None:
    """Each part follows the previous one, ends where it should, and has the checkpoints over its links."""
    key, other = CheckpointKey.generate(), CheckpointKey.generate()
    async with open_store(make) as store:
        empty = await store.audit.verify_part(None, None, limit=3)
        expect((empty.verification.problem, empty.last, empty.is_end), (None, 0, True), "an empty log")
        await _fill(store, 1, 4, _OLD)
        await store.audit.checkpoint(other, now=_OLD)
        await _fill(store, 5, 6, _OLD)
        await store.audit.checkpoint(key, now=_OLD)
        await _fill(store, 7, 9, LATER)

        async def walk(limit: int, signer: CheckpointKey | None = key) -> list[tuple[int, int, int | None, bool]]:
            walked: list[tuple[int, int, int | None, bool]] = []
            after: int | None = None
            previous: str | None = None
            while True:
                part = await store.audit.verify_part(after, previous, limit=limit, own_key=signer and signer.public)
                expect(part.verification.problem, None, "the problem of a part")
                walked.append((part.verification.checked, part.last, part.verification.covered, part.is_end))
                if part.is_end:
                    return walked
                after, previous = part.last, part.hash

        parts = [(4, 4, None, False), (4, 8, 6, False), (1, 9, None, True)]
        expect(await walk(4), parts, "the parts, one of which has a checkpoint by this key")
        expect(await walk(9), [(9, 9, 6, False), (0, 9, None, True)], "the whole chain, and what follows")
        expect(await walk(20, None), [(9, 9, None, True)], "the whole chain, without a key")
        part = await store.audit.verify_part(4, "0" * 64, limit=2)
        expect((part.verification.seq, part.verification.checked), (5, 0), "a part after a wrong previous hash")
        part = await store.audit.verify_part(4, None, limit=3)
        expect([checkpoint.number for checkpoint in part.checkpoints], [1, 2], "the checkpoints over a part")
        part = await store.audit.verify_part(40, None, limit=2)
        expect((part.verification.ok, part.is_end), (False, True), "a part after a missing record")
        await store.audit.prune(NOW, key, now=NOW)
        part = await store.audit.verify_part(2, "0" * 64, limit=5, own_key=key.public)
        expect(
            (part.verification.problem, part.verification.since, part.last),
            (None, 7, 9),
            "a part that begins with pruned records",
        )
        expect((part.verification.covered, part.is_end), (9, True), "the records that its checkpoints cover")


async def calls_are_measured_in_bounded_time(make: Make) -> None:
    """Check that the newest calls that fit are measured, with the time since which all were examined."""
    async with open_store(make) as store:
        for number in range(1, 9):
            org = "acme" if number % 2 else "globex"
            more = {"tool": f"tool-{number}", "outcome": "failed", "duration_us": number}
            store.audit.append(entry(f"a{number}", org=org, time=f"2026-01-0{number}T00:00:00.000000Z", **more))
        await store.audit.commit(intent("b", org="acme", time="2026-01-09T00:00:00.000000Z"))

        async def measure(
            query: AuditQuery, max_examined: int = 99, max_counted: int = 99
        ) -> tuple[list[int | None], str | None]:
            page = await store.audit.measure(query, max_examined=max_examined, max_counted=max_counted)
            return [call.duration_us for call in page.calls], page.since and page.since[8:10]

        measurement = await store.audit.measure(AuditQuery(tool="tool-3"))
        expect((len(measurement.calls), measurement.since), (1, None), "the calls of one tool")
        first = measurement.calls[0]
        expected = MeasuredCall("2026-01-03T00:00:00.000000Z", "tool-3", "allow", "failed", 3, *first[5:])
        expect(first, expected, "the measured call")
        acme = AuditQuery(org="acme")
        since = replace(acme, since="2026-01-05T00:00:00.000000Z")
        until = replace(acme, until="2026-01-05T00:00:00.000000Z")
        expect(await measure(AuditQuery()), ([8, 7, 6, 5, 4, 3, 2, 1], None), "all calls")
        expect(await measure(acme), ([7, 5, 3, 1], None), "the calls of an org")
        expect(await measure(AuditQuery(org="")), (_NOTHING, None), "the calls of no org")
        expect(await measure(acme, max_examined=4), ([7, 5, 3, 1], None), "exactly as many calls as are examined")
        expect(await measure(acme, max_examined=3), ([7, 5, 3], "03"), "a limit below the number of calls")
        expect(
            await measure(replace(acme, tool="tool-1"), max_examined=3), (_NOTHING, "03"), "a call that is not examined"
        )
        expect(await measure(acme, max_counted=2), ([7, 5], "05"), "a limit on the measured calls")
        expect(await measure(since), ([7, 5], None), "the calls since a time")
        expect(await measure(since, max_examined=2), ([7, 5], None), "the calls since a time, all of them examined")
        expect(await measure(until), ([3, 1], None), "the calls before a time")
        expect(await measure(until, max_examined=1), ([3], "03"), "the calls before a time, one of them examined")


async def links_are_read_in_chain_order(make: Make) -> None:
    """Check pages of links, including intents, and that a span of time is a span of the chain."""
    async with open_store(make) as store:
        expect(await store.audit.span(), None, "the span of an empty log")
        await expect_error(ValueError, store.audit.span(since="yesterday"), "a span since an invalid time")
        expect(list(await store.audit.read()), [], "the links of an empty log")
        await store.audit.commit(intent("a", time=_OLD))
        await store.audit.commit(entry("a", time=NOW))
        await store.audit.commit(entry("b", time=LATER))
        pages = [await store.audit.read(after=after, limit=2) for after in (0, 2, 3)]
        spans = [
            await store.audit.span(since=since, until=until)
            for since, until in ((None, None), (NOW, None), (None, NOW), (NOW, LATER), (LATER, NOW))
        ]
    expect([[record.seq for record in page] for page in pages], [[1, 2], [3], []], "the pages")
    expect(verify(asdict(record) for page in pages for record in page).checked, 3, "the number of valid links")
    expect(spans, [(1, 3), (2, 3), (1, 1), (2, 2), None], "the spans")


async def pruning_cuts_at_a_checkpoint(make: Make) -> None:
    """Check that the rest of the log verifies from the cut on, and that its numbers continue."""
    key = CheckpointKey.generate()
    async with open_store(make) as store:
        await _fill(store, 1, 4, _OLD)
        await expect_error(Conflict, store.audit.prune(NOW, key, now=LATER), "pruning without a checkpoint")
        await expect_error(ValueError, store.audit.prune("yesterday", key, now=LATER), "pruning before an invalid time")
        anchor = await store.audit.checkpoint(key, now=_OLD)
        await _fill(store, 5, 6, _OLD)
        await _fill(store, 7, 9, LATER)
        await expect_error(
            Conflict, store.audit.prune(NOW, CheckpointKey.generate(), now=LATER), "pruning by another key"
        )
        expect(await store.audit.prune(_OLD, key, now=LATER), Pruned(0, 1), "pruning when nothing is old enough")
        expect(await store.audit.prune(NOW, key, now=LATER), Pruned(4, 5), "pruning")
        verified = await store.audit.verify([key.public])
        expect(
            (verified.problem, verified.checked, verified.since, verified.covered),
            (None, 5, 5, 9),
            "the chain that is left",
        )
        expect((await store.audit.verify()).problem, None, "the chain that is left, without a key")
        expect([record.seq for record in await store.audit.read()], [5, 6, 7, 8, 9], "the links that are left")
        expect(await store.audit.span(), (5, 9), "the span that is left")
        first, note = await store.audit.checkpoints()
        expect((first, note.since, note.seq), (anchor, 5, 9), "the checkpoints that are left")
        await expect_error(Conflict, store.audit.prune(NOW, key, now=LATER), "pruning what no checkpoint covers")
        await store.audit.commit(entry("a1"))
        expect(
            [record.seq for record in await store.audit.read(after=9)], [10], "the next link, with an id used before"
        )
        by_checkpoint = await store.audit.verify([key.public], [first])
        expect((by_checkpoint.problem, by_checkpoint.checked), (None, 6), "the chain, verified with a kept checkpoint")


async def a_log_can_be_pruned_to_its_end(make: Make) -> None:
    """Check that the log is then empty, and that the next record still follows the last one."""
    key = CheckpointKey.generate()
    async with open_store(make) as store:
        await _fill(store, 1, 3, _OLD)
        await store.audit.checkpoint(key, now=_OLD)
        expect(await store.audit.prune(NOW, key, now=NOW), Pruned(3, 4), "pruning all")
        verified = await store.audit.verify([key.public])
        expect((verified.problem, verified.checked, verified.since), (None, 0, 4), "the empty chain")
        expect(await store.audit.prune(NOW, key, now=NOW), Pruned(0, 4), "pruning again")
        await _fill(store, 4, 5, NOW)
        await store.audit.checkpoint(key, now=NOW)
        verified = await store.audit.verify([key.public])
    expect(
        (verified.problem, verified.checked, verified.since, verified.covered), (None, 2, 4, 5), "the chain after that"
    )


async def pruning_leaves_open_intents(make: Make) -> None:
    """Check that the cut is before the first open intent, regardless of its age."""
    key = CheckpointKey.generate()
    async with open_store(make) as store:
        await _fill(store, 1, 2, _OLD)
        before = await store.audit.checkpoint(key, now=_OLD)
        await store.audit.commit(intent("open", time=_OLD))
        await store.audit.checkpoint(key, now=_OLD)
        expect(before and await store.audit.prune(NOW, key, now=NOW), Pruned(2, 3), "pruning beside an open intent")
        expect(await store.audit.prune(NOW, key, now=NOW), Pruned(0, 3), "pruning again")
        await store.audit.commit(entry("open", time=_OLD))
        await store.audit.checkpoint(key, now=_OLD)
        expect(await store.audit.prune(NOW, key, now=NOW), Pruned(2, 5), "pruning once it is closed")


async def pruning_spares_what_is_young(make: Make) -> None:
    """Check that no cut is made at a checkpoint that covers a link too young to be pruned."""
    key = CheckpointKey.generate()
    async with open_store(make) as store:
        await _fill(store, 1, 2, _OLD)
        await _fill(store, 3, 3, NOW)
        await store.audit.checkpoint(key, now=NOW)
        await expect_error(
            Conflict, store.audit.prune(NOW, key, now=LATER), "pruning at a checkpoint over a young link"
        )
        expect([record.seq for record in await store.audit.read()], [1, 2, 3], "the links that are left")
        expect(await store.audit.prune(LATER, key, now=LATER), Pruned(3, 4), "pruning once it is old")


async def prunes_at_once_cut_once(make: Make) -> None:
    """Check that the first prune cuts the old links, and that the others find nothing left."""
    key = CheckpointKey.generate()
    async with open_store(make) as store:
        await _fill(store, 1, 4, _OLD)
        await store.audit.checkpoint(key, now=_OLD)
        await _fill(store, 5, 6, LATER)
        cuts = await asyncio.gather(*(store.audit.prune(NOW, key, now=LATER) for _ in range(3)))
        ordered = sorted(cuts, key=lambda cut: cut.removed)
        expect(ordered, [Pruned(0, 5), Pruned(0, 5), Pruned(4, 5)], "three prunes at once")
        expect(
            [checkpoint.since for checkpoint in await store.audit.checkpoints()],
            [1, 5],
            "the checkpoints that are left",
        )
        expect((await store.audit.verify([key.public])).problem, None, "the chain that is left")


async def a_single_link_can_be_pruned(make: Make) -> None:
    """Check that a log of one link can be cut, and then one link after the other."""
    key = CheckpointKey.generate()
    async with open_store(make) as store:
        for number in range(1, 4):
            await _fill(store, number, number, _OLD)
            await store.audit.checkpoint(key, now=_OLD)
            expect(await store.audit.prune(NOW, key, now=NOW), Pruned(1, number + 1), f"pruning link {number}")
        expect((await store.audit.verify([key.public])).problem, None, "the empty chain")


async def what_ran_goes_with_the_records(make: Make) -> None:
    """Check that pruning removes old links with all that belongs to them, and payloads that nothing names any more."""
    key = CheckpointKey.generate()
    agent, tool, unused, young = "a" * 64, "b" * 64, "c" * 64, "d" * 64
    definition = f'{{"capabilities":[{{"hash":"{tool}","name":"notes"}}],"kind":"agent"}}'
    payloads = [
        PayloadRow("acme", agent, "jcs-1", "agent", definition),
        PayloadRow("acme", tool, "jcs-1", "capability", "{}"),
        PayloadRow("acme", unused, "jcs-1", "prompt", "{}"),
    ]
    async with open_store(make) as store:
        lineage = store.lineage
        await lineage.record_payloads([*payloads, replace(payloads[0], org="other")], named_at=_OLD)
        await lineage.record_payloads([replace(payloads[2], hash=young)], named_at=_OLD)
        await lineage.record_payloads([replace(payloads[2], hash=young)], named_at=NOW)
        old = replace(link_row("link-1"), created_at=_OLD)
        await lineage.record_turn(old, replace(envelope_row("envelope-1", "link-1"), created_at=_OLD))
        await lineage.record_turn(link_row("link-2", runtime="b"))
        await _fill(store, 1, 2, _OLD)
        await store.audit.checkpoint(key, now=_OLD)
        await store.audit.commit(entry("later", time=LATER, static_hash=agent, org="acme"))
        expect(await store.audit.prune(NOW, key, now=LATER), Pruned(2, 3), "pruning")
        expect(
            [row.id for row in (await lineage.links(LinkQuery("acme"))).items], ["link-2"], "the links that are left"
        )
        expect(await lineage.envelope("acme", "envelope-1"), None, "the envelope of the old link")
        expect(await lineage.transitions("acme", "session-1"), (), "the transition from the old link")
        expect(await lineage.latest_link("acme", "session-1"), link_row("link-2", runtime="b"), "the latest link")
        remaining = [await lineage.payload("acme", name) is not None for name in (agent, tool, unused, young)]
        expect(
            remaining,
            [True, True, False, True],
            "whether the payload named by a record, the one that it refers to, the unused and the young one are left",
        )
        expect(
            await lineage.payload("other", agent), None, "a payload that only a record of another organisation names"
        )
