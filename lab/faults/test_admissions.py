"""SIGKILL while calls are admitted: what counts, what was approved and what is on record stay one (spec 4, G3, G14)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from capset import Kernel, Principal
from capset.ext import Answer
from capset.stores.base import ApprovalQuery
from lab.faults.limited import BUDGET, LIMIT
from tests.helpers.stores.sql.support import run_at

PROGRAM = Path(__file__).with_name("limited.py")
ROUNDS = 5


def started(url: str, session: str | None, *, until: int | None) -> list[list[str]]:
    """Run the program, kill it after so many lines, and return them; those that came before its end, too."""
    command = [sys.executable, str(PROGRAM), url, *([session] if session else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines: list[list[str]] = []
        for line in process.stdout:
            lines.append(line.split())
            if until is not None and len(lines) > until:
                process.send_signal(signal.SIGKILL)
                break
        lines += [line.split() for line in process.stdout if line.endswith("\n")]
    return lines


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("G3", "G14", "G15", "G17")
async def test_no_kill_counts_a_call_that_has_no_intent_or_lets_one_too_many_through(url: str) -> None:
    random = Random(7)
    ((_, session),) = started(url, None, until=None)
    effects: Counter[str] = Counter()
    for number in range(ROUNDS):
        lines = started(url, session, until=random.randint(1, 25) if number < ROUNDS - 1 else None)
        effects.update(words[0] for words in lines[1:])
        async with Kernel(store=url) as kernel:
            pending = await kernel.approvals.list(ApprovalQuery(None, "pending", limit=1000))
            for row in pending.items[::2]:
                await kernel.approvals.decide(row.id, Answer(approved=True), by=Principal("boss"))
            assert (await kernel.audit.verify()).ok
    counted = sorted(run_at(url, "SELECT call FROM reservations WHERE key NOT LIKE '% %'"))
    sent = sorted(run_at(url, "SELECT id FROM records WHERE phase = 'intent' AND tool = 'send'"))
    assert counted == sent, "each call that counts has its intent, and each intent counts"
    assert effects["send"] <= LIMIT == len(sent)
    paid = run_at(url, "SELECT approval FROM records WHERE phase = 'intent' AND tool = 'pay'")
    used = run_at(url, "SELECT id FROM approvals WHERE status = 'used'")
    assert sorted(paid) == sorted(used), "each approval that is used has one intent"
    assert effects["pay"] <= len(paid)
    assert run_at(url, "SELECT calls FROM spendings") == [(len(sent) + len(paid),)]
    assert len(sent) + len(paid) <= BUDGET
