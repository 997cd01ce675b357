"""A governed call with telemetry: with a span that is not sampled, with one that is recorded, and counted."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from io import BytesIO
from typing import Final

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from capset import Agent, Capability, Kernel, Principal, Registry
from capset.kernel.call.invocation import Observer
from capset.kernel.telemetry.tracing import Tracing
from capset_server.observability.log_writer import LogWriter
from capset_server.observability.metrics import Metrics
from capset_server.service import Service
from lab.benchmarks.governed_call import governed
from lab.benchmarks.row import Row
from lab.benchmarks.turns import Job, in_turns

ALONE, UNSAMPLED, RECORDED, COUNTED = "alone", "a span, not sampled", "a span, recorded", "counted for Prometheus"
TARGETS: Final = {UNSAMPLED: 4.0, RECORDED: 12.0, COUNTED: 1.5}
"""How many times as long a call may take with each."""
AGENT: Final = Agent("bench", uses=[Capability("math", tools=[governed])])


def measure(*, quick: bool) -> list[Row]:
    """Return how much longer a call takes with each, on the event loop; the log in memory takes the records."""
    return asyncio.run(_measure(rounds=3 if quick else 15))


async def _measure(*, rounds: int) -> list[Row]:
    observers: dict[str, Observer | None] = {
        ALONE: None,
        UNSAMPLED: Tracing(TracerProvider(sampler=ALWAYS_OFF)),
        RECORDED: Tracing(TracerProvider()),  # which nobody exports: that is another thread's work
    }
    async with AsyncExitStack() as stack:
        kernels = {name: await _opened(stack, observer) for name, observer in observers.items()}
        counting = await _opened(stack, None)
        stack.enter_context(
            counting.observe(Metrics(Service(counting, Registry.of([], [AGENT])), LogWriter(BytesIO())))
        )
        jobs = {name: await _job(stack, kernel) for name, kernel in {**kernels, COUNTED: counting}.items()}

        async def flush() -> None:
            for kernel in (*kernels.values(), counting):
                await kernel.audit.flush()

        times = await in_turns(jobs, rounds=rounds, before=flush)
    peers = {name: f"{took:.2f} µs" for name, took in times.items()}
    return [
        Row(f"governed call, {name}", round(times[name] / times[ALONE], 2), "times one alone", target, "at most", peers)
        for name, target in TARGETS.items()
    ]


async def _opened(stack: AsyncExitStack, observer: Observer | None) -> Kernel:
    observers = () if observer is None else (observer,)
    return await stack.enter_async_context(Kernel(store="memory://", observers=observers))


async def _job(stack: AsyncExitStack, kernel: Kernel) -> Job:
    principal = Principal("bench", permissions={"math:use"})
    session = await stack.enter_async_context(kernel.open(AGENT, principal=principal))
    return lambda: session.call(governed, a=2, b=3)
