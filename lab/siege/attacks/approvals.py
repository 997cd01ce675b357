"""Calls whose approver is not to see what runs: commands behind the value of a secret's name."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from typing import Final

from lab.siege.attack import Attack, call
from lab.siege.connection import Connection, request, status
from lab.siege.site import Site


async def _masked_commands(site: Site, until: float) -> Counter[str]:
    """Ask for approvals of commands that stand behind ``?token=``, and look at what their approver is shown."""
    numbers, answers = itertools.count(), Counter[str]()

    async def ask() -> None:
        async with Connection(site.port) as connection:
            while time.monotonic() < until:
                command = f"curl https://ok/?token=x;{{rm,-rf,/srv/{until}-{next(numbers)}}}"
                await _ask(connection, site, command, answers)
                await asyncio.sleep(0.05)  # what is attacked is the approver

    await asyncio.gather(*(ask() for _ in range(4)))
    return answers


async def _ask(connection: Connection, site: Site, command: str, answers: Counter[str]) -> None:
    reply = await connection.ask(call(site.attacker, "pay", json.dumps({"to": command})))
    answers[status(reply)] += 1
    if reply.status != 202:
        return
    path, key = f"/v1/approvals/{reply.json['approval']}", site.attacker.key
    overview = await connection.ask(request("GET", path, key))
    arguments = await connection.ask(request("GET", f"{path}/arguments", key))
    answers.update(map(status, (overview, arguments)))
    if overview.status == arguments.status == 200:
        is_legible = command.partition(";")[2] in overview.json["arguments"]["to"] and overview.json["masked"]
        is_whole = arguments.json["arguments"] == {"to": command}
        answers["seen" if is_legible and is_whole else "hidden"] += 1
    answers[status(await connection.ask(request("POST", f"{path}/reject", key)))] += 1


_ANSWERS: Final = frozenset({"200", "202", "429", "503", "seen"})
ATTACKS = (Attack("masked commands", _masked_commands, _ANSWERS),)
