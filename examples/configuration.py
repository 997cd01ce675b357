"""Run two configuration files, as JSON and as YAML, with the same handlers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from capset import Kernel, Principal, Registry
from capset_connect.config_file import Configuration, read_configuration

FOLDER = Path(__file__).parent / "configuration"


async def run(configuration: Configuration, principal: Principal) -> None:
    print(f"{configuration.path.name}: {', '.join(configuration.actions)}")
    kernel = Kernel(store="memory://", governance=configuration.governance, workspace=configuration.workspace)
    async with kernel, kernel.open(configuration.agent, principal=principal) as session:
        for name, arguments in (
            ("get-weather", {"location": "Paris"}),
            ("get-weather", {"locatio": "Paris"}),
            ("get-weather", {"location": "Atlantis"}),
            ("send-notification", {"message": "It is warm in Paris."}),
        ):
            result = await session.try_message(session.message(name, arguments))
            print(f"  {name}: {result.data if result.error is None else result.error.message}")


async def main() -> None:
    registry = Registry.installed()
    first = read_configuration(FOLDER / "capset.json", registry)
    await run(first, Principal("ada", permissions=["weather:read"]))
    second = read_configuration(FOLDER / "capset.yaml", registry)
    permissions = second.governance.roles.expand("assistant")
    await run(second, Principal("ada", permissions=permissions))


asyncio.run(main())
