"""Policy by tier on a server: two keys of one user, who may do with the one what she may not do with the other."""

import asyncio

import httpx2

from capset import Agent, Capability, Decision, Kernel, Principal, Registry, Request, allow, deny, policy, tool
from capset.stores.base import AuditQuery
from capset_server.app import open_app
from capset_server.auth.keys import create_key
from capset_server.client import Client, error_of
from capset_server.http.request_rules import AllowedHosts
from capset_server.http.uvicorn_server import bind, make_server
from capset_server.service import Service


@policy
def pro_tier(request: Request) -> Decision:
    tier = request.principal.attributes.get("tier", "free")
    return allow() if tier == "pro" else deny(f"export needs the tier pro; this key has {tier}")


@tool(effect="read")
async def list_reports() -> list[str]:
    """List the reports."""
    return ["north", "south"]


@tool(effect="external", policies=[pro_tier])
async def export_report(name: str) -> str:
    """Export a report."""
    return f"{name}.pdf"


reports = Capability("reports", tools=[list_reports, export_report])
clerk = Agent("clerk", system_prompt="Keep the reports.", uses=[reports])


async def talk(url: str, tier: str, key: str) -> None:
    async with Client(url, key=key) as client:
        session = await client.sessions.create("clerk")
        print(f"{tier}:", (await client.call(session.id, "list_reports", {})).data)
        exported = await client.call(session.id, "export_report", {"name": "north"})
        print(f"{tier}:", exported.data if exported.error is None else error_of(exported.error))
    # What a request says of its sender is refused: who asks is known by the key.
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False) as http:
        body = {"tool": "export_report", "arguments": {"name": "north"}, "attributes": {"tier": "pro"}}
        claimed = await http.post(f"{url}/v1/sessions/{session.id}/calls", json=body)
        print(f"{tier}:", claimed.status_code, claimed.json()["fields"][0]["path"])


async def main() -> None:
    async with Kernel(store="memory://") as kernel:
        service = Service(kernel, Registry.of([reports], [clerk]))
        async with open_app(service, AllowedHosts.of("127.0.0.1")) as app:
            socket = bind("127.0.0.1", 0)
            server = make_server(app, service.limits, lambda: None, service.turns.bell.close)
            serving = asyncio.create_task(server.serve([socket]))
            for tier in ("free", "pro"):
                # As: capset key create laptop --principal ada --org acme --attribute tier=pro
                ada = Principal("ada", org="acme", attributes={"tier": tier})
                _, key = await create_key(kernel, "laptop", ada)
                await talk(f"http://127.0.0.1:{socket.getsockname()[1]}", tier, key)
            server.should_exit = True
            await serving

        await kernel.audit.flush()
        for record in reversed((await kernel.audit.query(AuditQuery(tool="export_report"))).items):
            print(record.principal, record.outcome, "attributes", str(record.attributes_digest)[:8])


asyncio.run(main())
