"""The command that the suite runs as a client: hands its scenario to the process that has capset loaded.

It imports nothing of capset, since the suite starts one for every scenario of a revision at once.
"""

from __future__ import annotations

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as process:
    process.connect(sys.argv[1])
    scenario = {
        "name": os.environ["MCP_CONFORMANCE_SCENARIO"],
        "url": sys.argv[2],
        "context": json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
    }
    process.sendall(json.dumps(scenario).encode() + b"\n")
    with process.makefile(encoding="utf-8") as answer:
        error = answer.read()
sys.exit(error or 0)
