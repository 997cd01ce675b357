"""Checks of approval requests, and of admissions by approvals, windows and budgets (spec 4, G3, G13–G18)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Final

from capset.definitions.governance.approvals import ApprovalRow
from capset.stores.base import (
    AdmissionRefused,
    ApprovalQuery,
    ApprovalTaken,
    Claim,
    Entry,
    NewEvent,
    Quota,
    QuotaExhausted,
    SessionRow,
    Store,
    TurnHold,
    TurnRow,
    TurnTaken,
    Window,
    WindowFull,
)
from capset.stores.base.admissions import ArgumentsFull
from capset_testing.store_suite.support import (
    EARLIER,
    LATER,
    NOW,
    Make,
    approval_row,
    create_sessions,
    expect,
    intent,
    open_store,
)

_SECOND: Final = 1_000_000_000
_START: Final = 1_767_225_600 * _SECOND
_MINUTE: Final = Window("minute", 3, 60 * _SECOND)
_TEN_SECONDS: Final = Window("ten seconds", 2, 10 * _SECOND)


async def equal_calls_have_one_request(make: Make) -> None:
    """Check that equal calls share a request, even concurrent ones; a call with any difference has its own."""
    async with open_store(make) as store:
        rows = [approval_row(f"id-{number:02}") for number in range(20)]
        requests = await asyncio.gather(*[store.approvals.open(row, max_pending=9) for row in rows])
        expect(len({request.id for request in requests if request}), 1, "how many requests there are")
        first = requests[0]
        others = [
            replace(rows[0], id=f"other-{name}", **{name: value})
            for name, value in (
                ("org", None),
                ("session", "session-2"),
                ("principal", "agent:user-1"),
                ("on_behalf_of", "user:ada"),
                ("tool_hash", "9" * 64),
                ("digest", "9" * 64),
            )
        ]
        for other in others:
            expect(
                await store.approvals.open(other, max_pending=9), other, f"the request of the differing call {other.id}"
            )
            expect(await store.approvals.standing(other.call_key, NOW), other, "its standing request")
        expect(await store.approvals.standing(rows[0].call_key, NOW), first, "the standing request of the first call")


async def code_counts_where_it_is_asked_for(make: Make) -> None:
    """With ``by_code``, a call with other code, or with code without a hash, has its own request."""
    async with open_store(make) as store:
        approvals, row = store.approvals, approval_row("id-1")
        await approvals.open(row, max_pending=9, by_code=True)
        other, none = replace(row, id="id-2", code_hash="7" * 64), replace(row, id="id-3", code_hash=None)
        expect(await approvals.open(other, max_pending=9), row, "the request that is found if code does not count")
        for request in (other, none):
            expect(
                await approvals.standing(request.call_key_with_code, NOW), None, "the standing request for other code"
            )
            expect(await approvals.open(request, max_pending=9, by_code=True), request, "the request for other code")
        for request in (row, other, none):
            expect(
                await approvals.standing(request.call_key_with_code, NOW), request, "the standing request for this code"
            )
            expect(
                await approvals.open(replace(request, id="id-4"), max_pending=9, by_code=True),
                request,
                "the same request",
            )
        expect(await approvals.standing(row.call_key, NOW), none, "the newest request, if code does not count")


async def a_request_stands_until_it_is_used_or_expires(make: Make) -> None:
    """Check that a pending, approved or rejected request stands, and that a used or expired one does not."""
    async with open_store(make) as store:
        row = approval_row("id-1")
        await store.approvals.open(row, max_pending=9)
        for status in ("approved", "rejected", "pending"):
            moved = replace(row, status=status)
            before = (await store.approvals.list(ApprovalQuery("acme"))).items[0]
            expect(await store.approvals.move(moved, before.status), True, f"moving it to {status}")
            expect(
                await store.approvals.standing(row.call_key, NOW), moved, f"the standing request when it is {status}"
            )
            expect(
                await store.approvals.open(replace(row, id="id-2"), max_pending=9),
                moved,
                "the request for an equal call",
            )
        expect(await store.approvals.standing(row.call_key, LATER), None, "the standing request after its expiry")
        for number, status in enumerate(("used", "expired"), 2):
            last = (await store.approvals.list(ApprovalQuery("acme", status="pending"))).items[0]
            await store.approvals.move(replace(last, status=status), "pending")
            expect(await store.approvals.standing(row.call_key, NOW), None, f"the standing request when it is {status}")
            next_request = replace(row, id=f"id-{number}")
            expect(await store.approvals.open(next_request, max_pending=9), next_request, "the next request")


async def a_principal_has_so_many_open_requests(make: Make) -> None:
    """Only pending requests with the same ``on_behalf_of`` count; decided and overdue ones do not."""
    async with open_store(make) as store:
        rows = [approval_row(f"id-{number}", f"{number:064}") for number in range(5)]
        for row in rows[:3]:
            expect(await store.approvals.open(row, max_pending=3), row, "a request")
        expect(await store.approvals.open(rows[3], max_pending=3), None, "a request beyond the limit")
        expect(await store.approvals.open(rows[0], max_pending=3), rows[0], "a request that exists")
        for name, value in (("on_behalf_of", "user:ada"), ("org", "other"), ("principal", "user:eve")):
            other = replace(rows[3], id=f"of another {name}", **{name: value})
            expect(await store.approvals.open(other, max_pending=3), other, f"a request of another {name}")
        late = replace(rows[3], created_at=LATER, expires_at="9999-01-01T00:00:00.000000Z")
        expect(await store.approvals.open(late, max_pending=1), late, "a request after the others have expired")
        await store.approvals.move(replace(rows[1], status="approved"), "pending")
        expect(await store.approvals.open(rows[4], max_pending=4), rows[4], "a request in place of a decided one")


async def arguments_of_open_requests_have_so_many_bytes(make: Make) -> None:
    """Check the limit of a whole org, also for concurrent requests; decided and overdue ones do not count."""
    async with open_store(make) as store:
        approvals, text = store.approvals, json.dumps({"text": "é" * 500}, ensure_ascii=False)
        size = len(text.encode())
        rows = [
            replace(approval_row(f"id-{number:02}", f"{number:064}"), arguments=text, principal=f"user:{number}")
            for number in range(20)
        ]

        async def ask(row: ApprovalRow, max_bytes: int) -> bool:
            try:
                return await approvals.open(row, max_pending=99, max_bytes=max_bytes) is not None
            except ArgumentsFull:
                return False

        outcomes = await asyncio.gather(*[ask(row, 5 * size) for row in rows])
        expect(outcomes.count(True), 5, "how many fit")
        requests = (await approvals.list(ApprovalQuery("acme"))).items
        expect(len(requests), 5, "how many are stored")
        expect(await ask(requests[0], 5 * size), True, "a request that exists")
        expect(await ask(replace(rows[0], id="other", org="other"), size), True, "a request of another org")
        late = replace(rows[1], id="late", created_at=LATER, expires_at="9999-01-01T00:00:00.000000Z")
        expect(await ask(late, size), True, "a request after the others have expired")
        await approvals.move(replace(requests[0], status="approved"), "pending")
        expect(await ask(replace(rows[2], id="next", digest="7" * 64), 6 * size), True, "one in place of a decided one")


async def requests_go_with_their_session(make: Make) -> None:
    """Check that deleting a session deletes its requests, and no others."""
    async with open_store(make) as store:
        for session in ("session-1", "session-2"):
            row = SessionRow(session, "scribe", "{}", "1" * 64, "user-1", "user", "acme", NOW)
            await store.sessions.create(row)
            await store.approvals.open(replace(approval_row(f"of {session}"), session=session), max_pending=9)
        await store.sessions.delete("session-1")
        expect(await store.approvals.get("acme", "of session-1"), None, "the request of a deleted session")
        remaining = (await store.approvals.list(ApprovalQuery("acme"))).items
        expect([request.id for request in remaining], ["of session-2"], "the requests")


async def overdue_requests_are_found(make: Make) -> None:
    """Check that overdue pending and approved requests of every org are found, oldest first, and no others."""
    async with open_store(make) as store:
        rows = [
            replace(approval_row(f"id-{number}"), org=org, digest=f"{number}" * 64, expires_at=at)
            for number, (org, at) in enumerate(((None, NOW), ("acme", EARLIER), ("acme", NOW), ("acme", LATER)))
        ]
        for row in rows:
            await store.approvals.open(row, max_pending=9)
        approved, rejected = replace(rows[0], status="approved"), replace(rows[2], status="rejected")
        for moved in (approved, rejected):
            expect(await store.approvals.move(moved, "pending"), True, "a decision")
        expect(await store.approvals.overdue(NOW), [rows[1], approved], "the overdue requests")
        expect(await store.approvals.overdue(NOW, 1), [rows[1]], "the oldest")
        expect(await store.approvals.overdue(EARLIER), [rows[1]], "the requests that were overdue before")


async def of_many_who_move_a_request_one_does(make: Make) -> None:
    """Check that one caller succeeds, and that its row is stored."""
    async with open_store(make) as store:
        row = approval_row("id-1")
        await store.approvals.open(row, max_pending=9)
        moves = [replace(row, status="approved", decided_by=f"user:{number}") for number in range(20)]
        outcomes = await asyncio.gather(*[store.approvals.move(move, "pending") for move in moves])
        expect(outcomes.count(True), 1, "how many moved it")
        expect(await store.approvals.get("acme", "id-1"), moves[outcomes.index(True)], "the stored request")
        expect(await store.approvals.get("other", "id-1"), None, "the request for another org")


def _claim(call: str, at: float, *windows: Window, **more: object) -> Claim:
    """Return the claim of a call, ``at`` seconds after the start."""
    return replace(Claim(call, lambda: _START + round(at * _SECOND), windows), **more)


async def _refusal_of(store: Store, claim: Claim, intent: Entry | None = None) -> AdmissionRefused | None:
    """Return the refusal of a call, or ``None``."""
    try:
        await store.admissions.admit(claim, intent)
    except AdmissionRefused as refused:
        return refused
    return None


async def a_window_takes_so_many_and_says_when_one_more_fits(make: Make) -> None:
    """Check that the limit is exact at any moment, the longest wait is reported, and ``check`` counts nothing."""
    async with open_store(make) as store:
        for number, at in enumerate((0, 1)):
            for _ in range(3):
                expect(await store.admissions.check(_claim("x", at, _MINUTE, _TEN_SECONDS)), None, "a look")
            expect(
                await _refusal_of(store, _claim(f"call-{number}", at, _MINUTE, _TEN_SECONDS)), None, "a call that fits"
            )
        full = await _refusal_of(store, _claim("call-2", 4, _MINUTE, _TEN_SECONDS))
        expect(isinstance(full, WindowFull) and (full.window, full.wait), (_TEN_SECONDS, 6 * _SECOND), "the wait")
        expect(
            await _refusal_of(store, _claim("call-2", 10, _MINUTE, _TEN_SECONDS)),
            None,
            "a call when one leaves the window",
        )
        full = await store.admissions.check(_claim("call-3", 10.5, _MINUTE, _TEN_SECONDS))
        expect(isinstance(full, WindowFull) and (full.window, full.wait), (_MINUTE, 49.5 * _SECOND), "the longest wait")
        last = _claim("call-3", 60, _MINUTE)
        early = replace(last, clock=lambda: last.clock() - 1)
        expect(isinstance(await _refusal_of(store, early), WindowFull), True, "a moment too early")
        expect(await _refusal_of(store, last), None, "just in time")
        expect(await _refusal_of(store, _claim("other", 0, replace(_MINUTE, key="another"))), None, "another window")


async def a_clock_that_is_set_back_gives_nobody_a_place(make: Make) -> None:
    """Check that a call counts at the time of the window's newest call if the clock shows an earlier time."""
    async with open_store(make) as store:
        for number in range(3):
            expect(await _refusal_of(store, _claim(f"call-{number}", 100, _MINUTE)), None, "a call")
        for back in (99, 50, 0, -100_000):
            full = await _refusal_of(store, _claim("later", back, _MINUTE))
            wait = round((160 - back) * _SECOND)
            expect(isinstance(full, WindowFull) and full.wait, wait, f"the wait, {100 - back} s back")
        expect(await _refusal_of(store, _claim("later", 160, _MINUTE)), None, "a call when its time has come")
        expect(await _refusal_of(store, _claim("even later", 120, _MINUTE)), None, "two of three have left by then")


async def of_many_at_once_exactly_so_many_are_admitted(make: Make) -> None:
    """Check concurrent calls in one window, and of one budget."""
    quota = Quota("session-1", 5, None)
    async with open_store(make) as store:
        claims = [_claim(f"call-{number:02}", number / 1000, _MINUTE, _TEN_SECONDS) for number in range(50)]
        refusals = await asyncio.gather(*[_refusal_of(store, claim) for claim in claims])
        expect(sum(refusal is None for refusal in refusals), 2, "how many fit into the smaller window")
        claims = [_claim(f"spent-{number:02}", 0, quotas=(quota,), cost=1.5) for number in range(50)]
        refusals = await asyncio.gather(*[_refusal_of(store, claim) for claim in claims])
        expect(sum(refusal is None for refusal in refusals), 5, "how many the budget pays for")
        spent = [refusal for refusal in refusals if isinstance(refusal, QuotaExhausted)]
        expect({(refusal.calls, refusal.cost) for refusal in spent}, {(5, 7.5)}, "the used budget")


async def what_is_released_counts_no_more(make: Make) -> None:
    """Check windows and budgets; releasing a call again, or one that was not admitted, changes nothing."""
    quota = Quota("session-1", 3, 10.0)
    async with open_store(make) as store:
        claims = [_claim(f"call-{number}", number, _MINUTE, quotas=(quota,), cost=2.0) for number in range(3)]
        for claim in claims:
            expect(await _refusal_of(store, claim), None, "a call")
        never = _claim("never", 5, _MINUTE, quotas=(quota,), cost=2.0)
        for claim in (claims[1], claims[1], never):
            await store.admissions.release(claim)
        expect(await _refusal_of(store, replace(never, call="fourth")), None, "a call in its place")
        refused = await store.admissions.check(never)
        expect(isinstance(refused, QuotaExhausted) and (refused.calls, refused.cost), (3, 6.0), "the used budget")
        full = await store.admissions.check(_claim("x", 6, _MINUTE))
        expect(isinstance(full, WindowFull) and full.wait, 54 * _SECOND, "the wait for the first to leave")
        expect(await _refusal_of(store, _claim("x", 60, _MINUTE)), None, "a call once the first has left")
        full = await store.admissions.check(_claim("y", 60, _MINUTE))
        expect(isinstance(full, WindowFull) and full.wait, 2 * _SECOND, "the wait for the third to leave")


async def budgets_of_several_owners_are_counted_apart(make: Make) -> None:
    """Check that a call counts in the budgets of its own owners only."""
    first_quota, other = Quota("session-1", 9, 90.0), Quota("session-2", 9, 90.0)
    async with open_store(make) as store:
        for number, quotas in enumerate([(first_quota, other), (first_quota,), (first_quota,), (other,)]):
            expect(await _refusal_of(store, _claim(f"call-{number}", number, quotas=quotas, cost=2.0)), None, "a call")
        for quota, used in ((first_quota, (3, 6.0)), (other, (2, 4.0))):
            spent = replace(quota, calls=1)
            refused = await store.admissions.check(_claim("x", 5, quotas=(spent,)))
            expect(
                isinstance(refused, QuotaExhausted) and (refused.calls, refused.cost), used, f"the use of {quota.owner}"
            )


async def an_approval_is_used_with_its_call_or_not_at_all(make: Make) -> None:
    """Check that one of many calls uses it, that a refused call leaves it, and that a released one returns it."""
    async with open_store(make) as store:
        await store.approvals.open(approval_row("approval-1"), max_pending=9)
        row = replace(approval_row("approval-1"), status="approved")
        await store.approvals.move(row, "pending")
        for number in range(3):
            expect(await _refusal_of(store, _claim(f"call-{number}", 0, _MINUTE)), None, "a call")
        full = await _refusal_of(store, _claim("with it", 1, _MINUTE, approval=row))
        expect(isinstance(full, WindowFull), True, "whether a full window refuses first")
        expect(await store.approvals.get(row.org, row.id), row, "the approval of a refused call")
        claims = [_claim(f"use-{number:02}", 0, approval=row) for number in range(50)]
        refusals = await asyncio.gather(*[_refusal_of(store, claim) for claim in claims])
        expect(sum(refusal is None for refusal in refusals), 1, "how many use the approval")
        expect(sum(isinstance(refusal, ApprovalTaken) for refusal in refusals), 49, "how many find it taken")
        used = await store.approvals.get(row.org, row.id)
        expect(used and used.status, "used", "its status")
        winner = claims[refusals.index(None)]
        for claim in claims:
            if claim is not winner:
                await store.admissions.release(claim)
        used = await store.approvals.get(row.org, row.id)
        expect(used and used.status, "used", "its status after the others were released")
        await store.admissions.release(winner)
        expect(await store.approvals.get(row.org, row.id), row, "the approval that was returned")


async def an_intent_is_written_with_what_its_call_counts_in(make: Make) -> None:
    """Check that a refused call writes no intent, and that a call with an invalid intent counts nowhere."""
    window, quota = replace(_MINUTE, requests=1), Quota("session-1", 1, None)
    async with open_store(make) as store:
        for bad in (intent("bad", tool="\ud800"), intent("bad", duration_us=2**70)):
            claim = _claim("bad", 0, window, quotas=(quota,))
            try:
                await store.admissions.admit(claim, bad)
            except Exception as error:
                expect(getattr(error, "code", None), "store_unavailable", "the error of a bad intent")
            else:
                expect("admitted", "refused", "a bad intent")
        refusals = await asyncio.gather(
            *[
                _refusal_of(store, _claim(f"call-{number}", 0, window, quotas=(quota,)), intent(f"call-{number}"))
                for number in range(9)
            ]
        )
        expect(sum(refusal is None for refusal in refusals), 1, "how many are admitted")
        call_ids = [record.id for record in await store.audit.read()]
        expect(call_ids, [f"call-{refusals.index(None)}"], "the intents on record")
        expect((await store.audit.verify()).ok, True, "whether the chain holds")


async def a_call_of_a_turn_is_admitted_while_its_process_holds_that(make: Make) -> None:
    """Check that a call writes no intent and counts nowhere if its turn was taken or has ended."""
    async with open_store(make) as store:
        await create_sessions(store, "session-1")
        turn = TurnRow("session-1", "turn-1", "here", LATER, "{}")
        await store.events.begin(
            turn, NewEvent("turn.started", "{}"), now=NOW, interrupted=NewEvent("turn.failed", "{}")
        )
        hold, quota = TurnHold("session-1", "turn-1", "here"), Quota("session-1", 9, None)
        for number, (turn_hold, is_held) in enumerate(
            (
                (hold, True),
                (replace(hold, holder="there"), False),
                (replace(hold, turn="turn-2"), False),
                (replace(hold, session="session-2"), False),
            )
        ):
            claim = _claim(f"call-{number}", 0, quotas=(quota,), hold=turn_hold)
            expect(isinstance(await store.admissions.check(claim), TurnTaken), not is_held, f"the look at {turn_hold}")
            refused = await _refusal_of(store, claim, intent(f"call-{number}"))
            expect(isinstance(refused, TurnTaken), not is_held, f"whether a call of {turn_hold} is refused")
        claims = [_claim(f"more-{number}", 0, hold=hold) for number in range(6)]
        outcomes = await asyncio.gather(
            *[_refusal_of(store, claim, intent(claim.call)) for claim in claims[:3]],
            store.events.take(turn, replace(turn, holder="there")),
            *[_refusal_of(store, claim, intent(claim.call)) for claim in claims[3:]],
        )
        admitted = [
            claim.call for claim, refusal in zip(claims, (*outcomes[:3], *outcomes[4:]), strict=True) if refusal is None
        ]
        expect({record.id for record in await store.audit.read()}, {"call-0", *admitted}, "the intents on record")
        refused = await _refusal_of(store, _claim("late", 0, hold=hold), intent("late"))
        expect(isinstance(refused, TurnTaken), True, "whether a call is refused after another process took its turn")
        expect(await store.admissions.spent(["session-1"]), [(1, 0.0)], "the used budget")


async def a_budget_ends_with_its_session(make: Make) -> None:
    """Check that the budgets of a session and of its runs are deleted with it."""
    async with open_store(make) as store:
        await create_sessions(store, "session-1", "session-10")
        quotas = tuple(
            Quota(owner, 1, None) for owner in ("session-1", "session-1/run", "session-10", "session-10/run")
        )
        expect(await _refusal_of(store, _claim("call-1", 0, quotas=quotas)), None, "a call")
        await store.sessions.delete("session-1")
        for quota, spent in zip(quotas, (False, False, True, True), strict=True):
            refused = await store.admissions.check(_claim("call-2", 0, quotas=(quota,)))
            expect(refused is not None, spent, f"whether the budget of {quota.owner} is used")


async def what_counts_of_calls_can_be_asked(make: Make) -> None:
    """Check the number of calls in each window over time, and the used budgets."""
    quota = Quota("session-1", 9, None)
    claims = [
        Claim(f"c{number}", lambda at=_START + 4 * number * _SECOND: at, (_MINUTE,), (quota,), 0.5)
        for number in range(3)
    ]
    async with open_store(make) as store:
        for claim in (*claims, Claim("d", lambda: _START + 12 * _SECOND, (_TEN_SECONDS,))):
            await store.admissions.admit(claim, None)

        async def counts(at: float) -> list[int]:
            windows = [_MINUTE, _TEN_SECONDS, replace(_MINUTE, key="unknown")]
            return await store.admissions.counts(windows, _START + round(at * _SECOND))

        expect(await counts(12), [3, 1, 0], "the counts at once")
        expect(await counts(0), [3, 1, 0], "the counts by a clock that was set back")
        expect(await counts(60), [2, 0, 0], "the counts when the first call has expired")
        expect(await counts(67.9), [1, 0, 0], "the counts when the second has, too")
        expect(await counts(68), [0, 0, 0], "the counts in the end")
        await store.admissions.release(claims[1])
        expect((await counts(12))[0], 2, "the count when one was released")
        expect(await store.admissions.spent(["session-1", "other"]), [(2, 1.0), (0, 0.0)], "the used budgets")
