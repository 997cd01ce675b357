"""From a toolkit to its fingerprints: which tools are in play for whom, and the link that proves it."""

from __future__ import annotations

import asyncio

from capset import (
    Agent,
    Principal,
    Request,
    Tool,
    Toolkit,
    ToolkitContext,
    compose,
    dynamic_toolkit,
    evaluate,
    policy,
    tool,
)
from capset.composition.statics import collect_tool_hashes
from capset.evaluation.snapshot.capture import link_of
from capset.fingerprint.references import compute_runtime_hash


@policy
async def pro(request: Request) -> bool:
    return request.env["userTier"] == "pro"


@tool(effect="read", instructions="Search before you answer.")
async def search(query: str) -> list[str]:
    """Search the shop."""
    return [query]


@tool(effect="read", policies=[pro])
async def forecast(weeks: int = 4) -> int:
    """Forecast the sales."""
    return weeks * 100


@dynamic_toolkit(instructions="Each region has a report of its own.")
async def regions(context: ToolkitContext) -> list[Tool[[], str]]:
    def of(region: str) -> Tool[[], str]:
        @tool(name=f"report_{region}", effect="read")
        async def report() -> str:
            """Return the region's report."""
            return f"All is well in {region}."

        return report

    return [of(region) for region in context.env["regions"]]


agent = Agent("my-agent", tools=[Toolkit("my-agent-tools", [search, forecast]), regions])


async def main() -> None:
    composition = compose(agent)
    print("static ", composition.static_hash[:12], sorted(collect_tool_hashes(composition)))
    for tier, region_names in (("free", []), ("pro", []), ("pro", ["north"])):
        env = {"userTier": tier, "regions": region_names}
        snapshot = await evaluate(
            composition, principal=Principal("ada"), env=env, invocation={"subjectId": "user-1", "persona": None}
        )
        link = link_of(snapshot)
        print("runtime", link.runtime_hash[:12], [ref.name for ref in link.tool_refs], snapshot.instructions)
        # Anybody who knows the tools' hashes can compute it.
        hashes = {ref.name: ref.hash for ref in link.tool_refs}
        assert link.runtime_hash == compute_runtime_hash(hashes, hashes)
        assert link.invocation_hash is not None


asyncio.run(main())
