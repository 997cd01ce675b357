"""Many tasks of several processes write one session's state: nothing is lost, and nothing is raised (spec 1, C34)."""

from __future__ import annotations

import pytest

from capset import Kernel
from lab.benchmarks import writers

PROCESSES = 4
LOAD = {"sqlite": (64, 2_000), "postgresql": (16, 480)}
"""By engine, the tasks of a process and the operations of all. The file is pressed as hard as is promised; on a server
each turn costs several processes a switch, and what waits for its turn here has 30 seconds on the slowest machine too.
"""


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.spec("C34")
async def test_thousands_of_operations_of_four_processes_lose_nothing_and_raise_nothing(url: str) -> None:
    tasks, operations = LOAD[url.partition(":")[0]]
    each = operations // PROCESSES
    async with Kernel(store=url) as kernel:
        async with kernel.open(writers.AGENT, principal=writers.WHO) as session:
            session_id = session.id
        running = [writers.start(url, session_id, f"p{number}", tasks, each) for number in range(PROCESSES)]
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in running:
            _, errors = process.communicate()
            assert (process.returncode, errors) == (0, "")
        async with kernel.open(writers.AGENT, principal=writers.WHO, session_id=session_id) as session:
            state, marks = await session.call(writers.look)
    kinds = [[f"p{process}-{number}" for process in range(PROCESSES) for number in range(k, each, 4)] for k in range(3)]
    assert (state.count, state.updated) == (len(kinds[0]), len(kinds[0]))
    assert sorted(state.log) == sorted(kinds[1])
    assert sorted(marks) == sorted(kinds[2])
