"""The incident assistant of the guide: own tools, a foreign server, an API, a policy, an approval and a budget."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from capset import Registry
from capset_connect.config_file import read_configuration
from capset_connect.pins.tool_pins import capability_with
from tests.helpers.cli.gateway import call, connected
from tests.helpers.cli.support import Command
from tests.helpers.connect.openapi.support import serving_beside
from tests.helpers.server.running import running
from tests.waiting import until

FOLDER = Path(__file__).parents[2] / "examples" / "incidents"
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "incident-assistant.md"
CLOCK = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("clock")


@server.tool(structured_output=False)
def get_current_time(timezone: str) -> str:
    return f"noon in {timezone}"


@server.tool(structured_output=False)
def convert_time(time: str) -> str:
    return time


server.run("stdio")
"""
"""Has the tools of mcp-server-time."""


def test_the_page_shows_the_files() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in ("capset.yaml", "ops.py", "script.yaml", "status.py"):
        text = (FOLDER / name).read_text(encoding="utf-8")
        assert text in page, name
    assert len((FOLDER / "capset.yaml").read_text(encoding="utf-8").splitlines()) <= 60


def test_the_file_is_sound() -> None:
    configuration = read_configuration(FOLDER / "capset.yaml", Registry.installed(), upstream=lambda _: capability_with)
    assert configuration.models == {"script:script.yaml": FOLDER}
    assert {source.pin_key for source in configuration.sources} == {"clock", "api:status"}


def status_app() -> Any:
    spec = spec_from_file_location("status_page", FOLDER / "status.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.app


@pytest.mark.nightly
@pytest.mark.realtime
async def test_it_does_what_the_page_says(capset: Command, tmp_path: Path) -> None:
    (tmp_path / "clock.py").write_text(CLOCK)
    for name in ("ops.py", "script.yaml"):
        shutil.copy(FOLDER / name, tmp_path)
    with serving_beside(status_app()) as status:
        text = (FOLDER / "capset.yaml").read_text().replace("127.0.0.1:8091", status.host)
        command = json.dumps([sys.executable, str(tmp_path / "clock.py")])
        (tmp_path / "capset.yaml").write_text(text.replace("[mcp-server-time, --local-timezone, UTC]", command))
        for source in ("clock", "api:status"):
            done = capset("mcp", "approve", source, "--agent", "capset.yaml")
            assert done.code == 0, done.err
        with running(tmp_path, "capset.yaml") as server:
            permissions = ["incidents:read", "services:restart", "clock:read", "status:read"]
            ada, bob = (server.key(name, org="acme", grant=permissions) for name in ("ada", "bob"))
            own = server.key("ada", org="acme", grant=["restarts:approve"], scopes=["capset:approve"])
            fred = server.key("fred", org="acme", grant=["restarts:approve"], scopes=["capset:approve"])
            async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=ada) as client:
                first = await client.responses.create(model="incidents", input="Search is slow. Restart it if need be.")
                calls = [item.name for item in first.output if item.type == "mcp_call"]
                assert sorted(calls) == ["clock_get_current_time", "read_incidents", "status_get_status"], (
                    "some at once"
                )
                (request,) = [item for item in first.output if item.type == "mcp_approval_request"]
                assert json.loads(request.arguments)["service"] == "search"
                approve = f"{server.url}/v1/approvals/{request.id}/approve"
                async with httpx2.AsyncClient(trust_env=False) as http:
                    refused = await http.post(approve, json={}, headers={"Authorization": f"Bearer {own}"})
                    assert refused.status_code == 403, refused.text
                    granted = await http.post(approve, json={}, headers={"Authorization": f"Bearer {fred}"})
                    assert granted.status_code == 200, granted.text

                async def restarted() -> bool:
                    later = await client.responses.create(model="incidents", previous_response_id=first.id, input=[])
                    return "Search was restarted." in later.output_text

                await until(restarted, "the turn to go on after the approval")
                payments = await client.responses.create(
                    model="incidents", previous_response_id=first.id, input="And payments?"
                )
                assert "I may not restart payments." in payments.output_text
            async with connected(server, bob) as tools:
                names = sorted(tool.name for tool in (await tools.list_tools()).tools)
                assert names == ["clock_get_current_time", "read_incidents", "restart_service", "status_get_status"]
                results = [await call(tools, "read_incidents") for _ in range(13)]
                assert [is_error for is_error, _ in results] == [False] * 12 + [True]
                assert "limited to 12/1d for each principal" in results[-1][1]
        assert capset("audit", "verify").code == 0
