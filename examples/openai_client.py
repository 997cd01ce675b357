"""OpenAI's own client at an agent of capset: it lists the agents as models, and talks to one. No network.

It needs the package openai.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from openai import OpenAI

CAPSET = Path(sys.executable).with_name("capset")
SCRIPT = """
steps:
  - text: I write it down.
    calls: [{tool: write_file, arguments: {path: /notes.txt, content: buy milk}}]
  - when: {succeeded: true}
    text: It is in /notes.txt.
  - when: {succeeded: false}
    text: I may not write here.
"""


def run(folder: str, *command: str) -> str:
    """Run a command of capset's, and return what it prints."""
    return subprocess.run([CAPSET, *command], cwd=folder, check=True, capture_output=True, text=True).stdout


@contextmanager
def server(folder: str) -> Generator[str]:
    """Run a server whose agents have a model that follows the script, and give its address."""
    Path(folder, "script.yaml").write_text(SCRIPT)
    command = [CAPSET, "serve", "--port", "0", "--model", "script:script.yaml"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            match = re.search(r"http://\S+", process.stderr.readline())
            assert match is not None, "the server says first where it is"
            yield match[0]
        finally:
            process.terminate()
            process.communicate()


def key(folder: str, *options: str) -> str:
    """Make an API key."""
    return json.loads(run(folder, "key", "create", "example", "--json", *options))["key"]


with tempfile.TemporaryDirectory() as folder, server(folder) as url:
    scopes = ["--scope", "capset:call", "--scope", "capset:write"]
    ada = key(folder, "--principal", "ada", *scopes)
    eve = key(folder, "--principal", "eve", *scopes, "--grant", "session_files:write")
    agent = {"name": "keeper", "capabilities": ["session_file_system"]}
    headers = {"Authorization": f"Bearer {ada}"}
    made = httpx2.post(f"{url}/v1/agents", json=agent, headers=headers).raise_for_status().json()["id"]

    for who in (ada, eve):
        with OpenAI(base_url=f"{url}/v1", api_key=who) as client:
            assert made in [model.id for model in client.models.list()]
            response = client.responses.create(model=made, input="note: buy milk")
            for item in response.output:
                if item.type == "mcp_call":
                    print("call:", item.name, item.status, item.output or item.error)
                elif item.type == "message":
                    print("text:", "".join(part.text for part in item.content if part.type == "output_text"))
