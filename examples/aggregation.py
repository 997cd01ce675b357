"""Two capabilities that show documents to the model: under one key they share one block, in the order of uses."""

import asyncio

from capset import Agent, Capability, Kernel, Preset, Principal
from capset.errors import ContextShapeConflict

source_a = Capability("source-a", presets={"all": Preset(context=[lambda: {"documents": "from A"}])})
source_b = Capability("source-b", presets={"all": Preset(context=[lambda: {"documents": "from B"}])})
source_c = Capability("source-c", context=[lambda: {"documents": {"first": "a mapping, where the others give text"}}])


async def main() -> None:
    async with Kernel(store="memory://") as kernel:
        for uses in ([source_a, source_b], [source_b, source_a], [source_a, source_b.with_presets(all=False)]):
            async with kernel.open(Agent("reader", uses=uses), principal=Principal("ada")) as session:
                print(await session.system_text())
        async with kernel.open(Agent("reader", uses=[source_a, source_c]), principal=Principal("ada")) as session:
            try:
                await session.system_text()
            except ContextShapeConflict as conflict:
                print(conflict)


asyncio.run(main())
