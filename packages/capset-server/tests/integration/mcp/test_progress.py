"""Progress of streaming tools."""

from __future__ import annotations

from mcp_types import ProgressNotification, ServerNotification

from tests.helpers.server.mcp.support import Era, bench, site

Told = list[tuple[float, float | None, str | None]]


async def test_progress_is_told_to_whoever_asked_for_it(era: Era) -> None:
    updates: Told = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        updates.append((progress, total, message))

    async with bench(era) as workbench:
        fractions = {"fractions": [0.0, 0.25, 1.0]}
        result = await workbench.client.call_tool("steps", fractions, progress_callback=on_progress)
        assert result.structured_content == {"result": 3}
    assert updates == [(0.0, 1.0, "step 0"), (0.25, 1.0, "step 1"), (1.0, 1.0, "step 2")]


async def test_progress_only_ever_increases(era: Era) -> None:
    updates: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        updates.append(progress)

    async with bench(era) as workbench:
        fractions = {"fractions": [0.5, 0.5, 0.2, 0.7]}
        await workbench.client.call_tool("steps", fractions, progress_callback=on_progress)
    assert updates == [0.5, 0.7]


async def test_nobody_who_did_not_ask_is_told() -> None:
    messages: list[object] = []

    async def on_message(message: object) -> None:
        messages.append(message)

    async with bench("legacy", message_handler=on_message) as workbench:
        await workbench.client.call_tool("steps", {"fractions": [0.1, 0.2]})
    assert not [received for received in messages if isinstance(received, ServerNotification | ProgressNotification)]


async def test_progress_comes_over_http_before_the_result(era: Era) -> None:
    updates: Told = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        updates.append((progress, total, message))

    async with site() as server, server.client(era, "ada") as client:
        result = await client.call_tool("steps", {"fractions": [0.5, 1.0]}, progress_callback=on_progress)
        assert result.structured_content == {"result": 2}
    assert updates == [(0.5, 1.0, "step 0"), (1.0, 1.0, "step 1")]
