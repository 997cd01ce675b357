"""A source may take as long as what fetches it, and a while more to be kept (spec 5, P18)."""

from __future__ import annotations

import pytest

from capset import Agent, Capability, CapabilityRef, Kernel, Principal
from capset_tools.research import Research, ResearchConfig, research, research_over
from capset_tools.web_fetch import WebFetch, WebFetchConfig, web_fetch, web_fetch_over
from tests.helpers.tools.research.support import PERMISSIONS

SLOW = web_fetch_over(first_byte=5, body=200)


async def seconds(capability: Capability[Research, ResearchConfig]) -> tuple[float | None, float | None]:
    """Return how long fetching may take, and fetching what is kept."""
    async with (
        Kernel("memory://") as kernel,
        kernel.open(
            Agent("scholar", uses=[capability]), principal=Principal("ada", permissions=PERMISSIONS)
        ) as session,
    ):
        tools = session.snapshot.tools
        fetching = tools["web_fetch"].tool.timeout if "web_fetch" in tools else None
        return fetching, tools["research_fetch"].tool.timeout


@pytest.mark.spec("P18")
@pytest.mark.parametrize(
    "over",
    [web_fetch, SLOW, SLOW.with_config(WebFetchConfig(redirects=0)), web_fetch_over(first_byte=0.1, body=0.1)],
    ids=["as it is", "slow", "configured", "fast"],
)
async def test_a_source_has_the_time_of_its_fetching_and_some_to_be_kept(
    over: Capability[WebFetch, WebFetchConfig] | CapabilityRef[WebFetch, WebFetchConfig],
) -> None:
    fetching, total = await seconds(research_over(over))
    assert fetching is not None
    assert total == fetching + 40


@pytest.mark.spec("P18")
async def test_what_fetches_without_its_tool_or_a_deadline_of_it() -> None:
    assert await seconds(research_over(SLOW.with_presets(tools=False))) == (None, 5 * 21 + 200 + 30 + 40)
    bare = Capability("web_fetch", helpers=web_fetch.helpers, config=WebFetchConfig)
    assert await seconds(research_over(bare)) == (None, None)
    assert (await seconds(research))[1] == 121
