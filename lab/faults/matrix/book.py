"""What clients outside were told during one run, and how that compares with what is there afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from capset.wire.turns import ENDINGS
from lab.faults.load import EFFECTS, TOLD, note
from lab.faults.matrix.site import STEPS, Site
from tests.databases import connected
from tests.helpers.stores.sql.support import opened_at, path_of, raw

PATIENCE_SECONDS = 40.0
"""How long what has to happen after a fault is waited for."""
_FILE_BYTES = 40_000


@dataclass
class Book:
    """One run's clients: what they asked for, what they were told, and what they do not know."""

    site: Site
    session: str
    prefix: str
    moment: random.Random
    told: dict[str, str] = field(default_factory=dict[str, str])
    """The record of each call that was acknowledged, by the name of its effect."""
    unsure: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The tool and the name of each call that was not."""
    turns: list[str] = field(default_factory=list[str])
    """The sessions of turns that were acknowledged."""
    unsure_turns: list[str] = field(default_factory=list[str])
    runs: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """The runs that were acknowledged, by their ids: the name of the effect of a call, ``None`` for a turn."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """The digest of each file whose writing was acknowledged, by its path."""
    unsure_files: dict[str, str] = field(default_factory=dict[str, str])
    problems: list[str] = field(default_factory=list[str])

    async def call(self, server: int, tool: str, name: str) -> int:
        """Make a call under its own idempotency key, approve it if it needs that, and return the last status."""
        body = json.dumps({"tool": tool, "arguments": {"name": name, "folder": str(self.site.folder)}}).encode()
        for _ in range(2):
            status, answer = await self.site.ask(
                server, "POST", f"/v1/sessions/{self.session}/calls", body, idempotency=name
            )
            if status == 200 and answer["success"]:
                self.told[name] = answer["record"]
                note(self.site.folder, TOLD, f"{answer['record']} {name}")
            if status != 202:
                return status if status != 200 or answer["success"] else answer["error"]["status"]
            decided, _ = await self.site.ask(
                server, "POST", f"/v1/approvals/{answer['approval']}/approve", b"{}", key=self.site.approver
            )
            if decided not in (200, 409):
                return decided
        return 202

    async def begin_turn(self, server: int, session: str) -> bool:
        """Begin a turn of a session under its own idempotency key; return whether that was acknowledged."""
        status, _ = await self.site.ask(
            server, "POST", f"/v1/sessions/{session}/messages", b'{"content":"go"}', idempotency=session
        )
        if status == 202:
            self.turns.append(session)
        return status == 202

    async def queue(self, server: int, name: str | None) -> str | None:
        """Queue a run, a call with this effect or a turn; return its id, or ``None`` if that was not acknowledged."""
        arguments = {"name": name, "folder": str(self.site.folder)}
        body = {"agent_id": self.site.agent, "content": "go"}
        if name is not None:
            body = {"session_id": self.session, "tool": "act", "arguments": arguments}
        status, created = await self.site.ask(server, "POST", "/v1/runs", json.dumps(body).encode())
        if status != 202:
            return None
        self.runs[created["id"]] = name
        if name is None:
            self.turns.append(created["session"])
        return created["id"]

    async def ended(self, run: str, seconds: float) -> dict[str, Any]:
        """Return a run once it has ended, or as it is after so many seconds."""
        end = time.monotonic() + seconds
        while True:
            status, body = await self.site.ask(self.moment.randrange(2), "GET", f"/v1/runs/{run}")
            if (status == 200 and body["ended_at"] is not None) or time.monotonic() > end:
                return body if status == 200 else {"state": f"answered {status}"}
            await asyncio.sleep(0.1)

    async def write(self, server: int, path: str) -> None:
        """Write a file; what is not acknowledged may be there or not, but not in part."""
        content = os.urandom(_FILE_BYTES)
        digest = hashlib.sha256(content).hexdigest()
        status, _ = await self.site.ask(server, "PUT", f"/v1/sessions/{self.session}/files{path}", content)
        if status in (200, 201):
            self.files[path] = digest
        else:
            self.unsure_files[path] = digest
            await asyncio.sleep(0.1)

    async def recovered(self, since: float) -> float:
        """Return the seconds from ``since`` until each server was ready and made a call with an effect."""

        async def await_server(server: int) -> None:
            tries = 0
            while time.monotonic() < since + PATIENCE_SECONDS:
                await self.site.revive()
                tries += 1
                ready, _ = await self.site.ask(server, "GET", "/v1/readyz", seconds=5)
                if ready == 200:
                    status = await self.call(server, "act", f"{self.prefix}-back-{server}-{tries}")
                    if status == 200:
                        return
                    self.unsure.append(("act", f"{self.prefix}-back-{server}-{tries}"))
                await asyncio.sleep(0.05)
            self.problems.append(f"server {server} made no call within {PATIENCE_SECONDS:.0f} s of the return")

        await asyncio.gather(*(await_server(number) for number in range(len(self.site.servers))))
        if self.site.workers:
            await self._work_again(since)
        return time.monotonic() - since

    async def _work_again(self, since: float) -> None:
        """Wait until a run that is queued now is done."""
        run = await self.queue(0, f"{self.prefix}-back-run")
        if run is None or (await self.ended(run, since + PATIENCE_SECONDS - time.monotonic()))["state"] != "succeeded":
            self.problems.append(f"no run was done within {PATIENCE_SECONDS:.0f} s of the return")

    async def repeat(self) -> None:
        """Send again whatever was not acknowledged, until it is or is known to have been done or broken off."""
        waiting = [*self.unsure]

        async def calls() -> None:
            while waiting:
                tool, name = waiting.pop()
                end, status = time.monotonic() + 15, 0
                while status not in (200, 409) and time.monotonic() < end:
                    if status:
                        await asyncio.sleep(0.2)
                    status = await self.call(self.moment.randrange(2), tool, name)
                if status not in (200, 409):
                    self.problems.append(f"the call {name} was answered {status} to the last")

        await asyncio.gather(*(calls() for _ in range(6)))
        for session in self.unsure_turns:
            await self.begin_turn(self.moment.randrange(2), session)

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """Return what a statement finds in the database, on a connection of its own."""
        if (path := path_of(self.site.url)) is not None:
            with raw(path) as file:
                return file.execute(statement).fetchall()
        with connected(self.site.url) as connection:
            return connection.execute(statement.encode()).fetchall()

    async def check(self) -> Found:
        """Compare what the clients were told with what is there."""
        lost = await self._wrong_runs() + await self._wrong_turns() + await self._wrong_files()
        open_intents = -1
        end = time.monotonic() + 3
        while open_intents and time.monotonic() < end:
            open_intents = len(self.rows("SELECT id FROM open_intents"))
            await asyncio.sleep(0.1 if open_intents else 0)
        done = Counter((self.site.folder / EFFECTS).read_text().split())
        intents: set[object] = set()
        outcomes: dict[object, object] = {}
        for record, phase, outcome, arguments in self.rows("SELECT id, phase, outcome, arguments FROM records"):
            if phase == "intent":
                call_arguments = json.loads(str(arguments)) if arguments else {}
                intents.add(call_arguments.get("name"))
            elif phase == "outcome":
                outcomes[record] = outcome
        for name, record in self.told.items():
            if not done[name] or outcomes.get(record) != "succeeded":
                lost.append(f"{name}: {done[name]} effects, on record as {outcomes.get(record)}")
        sessions = {*self.turns, *self.unsure_turns}
        own_effects = [
            name for name in done if name.startswith(f"{self.prefix}-") or name.partition("/")[0] in sessions
        ]
        doubled = [name for name in own_effects if done[name] > 1]
        self.problems += [
            f"the effect {name} has no intent" for name in own_effects if "/" not in name and name not in intents
        ]
        async with opened_at(self.site.url) as store:
            verified = await store.audit.verify()
        acknowledged = len({*self.told, *self.runs.values()} - {None}) + len(self.turns) + len(self.files)
        return Found(lost, doubled, open_intents, verified.problem or "", acknowledged, self.problems)

    async def _wrong_runs(self) -> list[str]:
        """Return the runs that did not end as they should; a call that was broken off may have failed as that."""
        wrong: list[str] = []
        for run, name in self.runs.items():
            ended_run = await self.ended(run, PATIENCE_SECONDS)
            outcome = ended_run.get("outcome") or {}
            if ended_run["state"] == "succeeded":
                if name is not None:
                    self.told[name] = outcome["record"]
            elif name is None or outcome.get("error", {}).get("code") != "interrupted":
                wrong.append(f"the run {run}: {ended_run['state']} {json.dumps(outcome)[:120]}")
        return wrong

    async def _wrong_turns(self) -> list[str]:
        wrong: list[str] = []
        end = time.monotonic() + PATIENCE_SECONDS
        for session in dict.fromkeys(self.turns):
            while True:
                where = f"WHERE session = '{session}'"  # an id of the server's own
                events = self.rows(f"SELECT type, data FROM session_events {where} ORDER BY seq")
                if (events and events[-1][0] in ENDINGS) or time.monotonic() > end:
                    break
                await asyncio.sleep(0.1)
            if not events or events[-1][0] != "turn.ended":
                wrong.append(f"the turn of {session}: {events[-1] if events else 'never began'}")
            results = [json.loads(str(data)) for kind, data in events if kind == "tool.result"]
            self.told |= {
                tool_result["data"]: tool_result["record"] for tool_result in results if tool_result["success"]
            }
            if len({tool_result["call"] for tool_result in results}) != STEPS:
                wrong.append(f"the turn of {session} has the results of {len(results)} calls")
        return wrong

    async def _wrong_files(self) -> list[str]:
        wrong: list[str] = []
        for path, digest in (self.files | self.unsure_files).items():
            status, content = await self.site.ask(0, "GET", f"/v1/sessions/{self.session}/files{path}")
            served_digest = hashlib.sha256(content).hexdigest() if status == 200 else None
            if served_digest != digest and (path in self.files or status != 404):
                wrong.append(f"the file {path}: {status}, {len(content)} bytes")
        return wrong


@dataclass(frozen=True)
class Found:
    """What one run left behind that should not be, and how much was acknowledged."""

    lost: list[str]
    doubled: list[str]
    open_intents: int
    chain: str
    acknowledged: int
    problems: list[str]
