"""A call that waits for an approval is a task of its MCP client; somebody else decides on the page. No network."""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

CAPSET = Path(sys.executable).with_name("capset")
CONFIG = """
name: adder
actions:
  - name: add
    title: Add
    tool: test_math.add
    approval: ask
"""
DECLARED: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
VERSION = "2026-07-28"


def ask(http: httpx2.Client, method: str, about: str, **params: Any) -> dict[str, Any]:
    """Send a request of MCP as a client that knows tasks; ``about`` is the name of the tool, or the task's id."""
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": DECLARED,
    }
    headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method, "Mcp-Name": about}
    headers["Accept"] = "application/json, text/event-stream"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    answer = http.post("/mcp", json=body, headers=headers)
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = text.partition("data: ")[2].strip()
    return json.loads(text)["result"]


def approve(browser: httpx2.Client, path: str, key: str) -> None:
    """Do in a browser what an approver does: sign in with a key, read, and press the button."""
    page = browser.post(path, data={"action": "sign_in", "key": key})
    fields = dict(re.findall(r'name="(token|round)" value="(\w+)"', page.text))
    browser.post(path, data={"action": "approve", "note": "go on", **fields}).raise_for_status()


def make_key(folder: str, *options: str) -> str:
    command = [CAPSET, *("key", "create", "example", "--principal", *options)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def server(folder: str) -> Generator[str]:
    """Run a server on a free port, with a database in a folder, and give its address."""
    Path(folder, "capset.yaml").write_text(CONFIG)
    command = [CAPSET, *("serve", "--port", "0", "capset.yaml")]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            match = re.search(r"http://\S+", process.stderr.readline())
            assert match is not None, "the server says first where it is"
            yield match[0]
        finally:
            process.terminate()
            process.communicate()


with tempfile.TemporaryDirectory() as folder:
    ada = make_key(folder, "ada", "--scope", "capset:call")
    boss = make_key(folder, "boss", "--scope", "capset:approve")
    with (
        server(folder) as url,
        httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {ada}"}, timeout=60) as client,
        httpx2.Client(base_url=url, follow_redirects=True, timeout=60) as browser,
    ):
        task = ask(client, "tools/call", "add", name="add", arguments={"a": 2, "b": 3})
        print(task["resultType"], task["status"], task["statusMessage"])
        approve(browser, f"/approve/{task['_meta']['dev.capset/approval']}", boss)
        while (found := ask(client, "tasks/get", task["taskId"], taskId=task["taskId"]))["status"] == "working":
            time.sleep(found["pollIntervalMs"] / 1000)
        print(found["status"], found["result"]["structuredContent"])
    records = subprocess.run([CAPSET, "audit", "query"], cwd=folder, capture_output=True, text=True, check=True).stdout
    print(records)
