"""Processes that work on one session's files, some of which are killed: what they meant and did outlives them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from capset import Agent, Kernel, Principal
from capset.definitions.governance.settings import Governance
from capset.errors import FileError, QuotaExceeded
from capset.kernel.call.session import Session
from lab.faults.load import note

AGENT = Agent("filer")
WHO = Principal("user-1")
PRESSED = Governance(file_bytes=2_000_000, session_bytes=12_000_000, session_files=40)
"""What the session of ``work`` may have; its processes want more."""
FULL = Governance(file_bytes=20_000, session_bytes=1_000_000, session_files=60)
"""What each session of ``fill`` may have."""
KINDS = ("bytes", "files", "directories")
SHARED = "/shared"
_COMMON = [bytes([number]) * 300_000 for number in range(3)]
_NAMES = ("f", "g", "d/f", "d/g", "e/d/f")


@dataclass(frozen=True)
class Deed:
    """What one task does to one path, or between two; of a write, the digest of what is written.

    ``version`` is that of what was written, and ``refused`` the code of an error, once either is known.
    """

    task: str
    number: int
    kind: str
    path: str
    target: str = ""
    digest: str = ""
    version: int = 0
    refused: str = ""

    def done_to(self, files: dict[str, str]) -> dict[str, str]:
        """Return the digests of files by path after this."""
        below = [path for path in files if path == self.path or path.startswith(f"{self.path}/")]
        if self.refused:
            return files
        if self.kind == "write":
            return files | {self.path: self.digest}
        remaining = {path: digest for path, digest in files.items() if path not in below}
        if self.kind == "delete":
            return remaining
        return remaining | {self.target + path.removeprefix(self.path): files[path] for path in below}


def deeds_in(file: Path) -> list[Deed]:
    return [Deed(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def work(url: str, folder: Path, session: str, seed: int, operations: int | None = None) -> None:
    """Write, move and delete, in a directory of each task's own and in one that all share, until killed or done."""
    random.seed(seed)
    asyncio.run(_work(url, folder, session, seed, operations))


async def _work(url: str, folder: Path, session_id: str, seed: int, operations: int | None) -> None:
    numbers = iter(count()) if operations is None else iter(range(operations))
    async with (
        Kernel(store=url, governance=PRESSED) as kernel,
        kernel.open(AGENT, principal=WHO, session_id=session_id) as session,
    ):
        tasks = [(f"p{seed}-{number}", f"/p{seed}-{number}") for number in range(3)]
        tasks += [(f"p{seed}-shared-{number}", SHARED) for number in range(3)]
        await asyncio.gather(*[_act(session, folder, name, root, numbers) for name, root in tasks])


async def _act(session: Session, folder: Path, task: str, root: str, numbers: Iterable[int]) -> None:
    for number in numbers:
        path, target = (f"{root}/{name}" for name in random.choices(_NAMES, k=2))
        kind = random.choices(["write", "move", "delete"], [6, 3, 1])[0]
        if kind != "write" and random.random() < 0.3:
            path, target = f"{root}/d", f"{root}/e/x"
        content = random.choice(_COMMON) if random.random() < 0.2 else _content(task, number)
        deed = Deed(task, number, kind, path, target, hashlib.sha256(content).hexdigest() if kind == "write" else "")
        note(folder, f"meant-{task}", json.dumps(asdict(deed)))
        outcome: dict[str, object] = {}
        try:
            if kind == "write":
                outcome["version"] = (await session.files.write(path, content))[0].version
            elif kind == "move":
                await session.files.move(path, target, overwrite=True)
            else:
                await session.files.delete(path, recursive=True)
        except FileError as error:
            outcome["refused"] = error.code
        note(folder, f"told-{task}", json.dumps(asdict(deed) | outcome))


def _content(task: str, number: int) -> bytes:
    head = f"{task} {number} ".encode()
    return head + random.randbytes(1_000) * random.choice((0, 1, 50, 1_500))


def fill(url: str, folder: Path, sessions: dict[str, str], name: str) -> None:
    """Fill a session for each kind of limit, from several tasks, until nothing is taken any more."""
    asyncio.run(_fill(url, folder, sessions, name))


async def _fill(url: str, folder: Path, sessions: dict[str, str], name: str) -> None:
    async with Kernel(store=url, governance=FULL) as kernel:

        async def fill_session(kind: str, task: int) -> None:
            async with kernel.open(AGENT, principal=WHO, session_id=sessions[kind]) as session:
                for number in count():
                    file_name = f"{name}-{task}-{number}"
                    path = f"/a/{file_name}/b/f" if kind == "directories" else f"/{file_name}"
                    content = file_name.encode().ljust(20_000) if kind == "bytes" else file_name.encode()
                    try:
                        await session.files.write(path, content)
                    except QuotaExceeded:
                        return
                    note(folder, f"told-{kind}", path)

        await asyncio.gather(*[fill_session(kind, task) for kind in KINDS for task in range(4)])
