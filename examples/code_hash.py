"""One definition, two versions of the code behind it: who is told, and how anybody recomputes the hash.

A distribution is laid down here as an installer does it; any wheel that `pip install` brings is one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import rfc8785

SITE = Path("site").absolute()
TOOLS = '''
from capset import Agent, tool
from payments.rounding import rounded

@tool(effect="external")
def pay(to: str, amount: float) -> str:
    """Pay somebody."""
    return f"{to} has {rounded(amount)}"

clerk = Agent("clerk", tools=[pay])
'''


def install(version: str, rounding: str) -> None:
    """Lay a version of `payments` into the folder, in the place of the one before."""
    info = f"payments-{version}.dist-info"
    files = {
        "payments/__init__.py": "",
        "payments/tools.py": TOOLS,
        "payments/rounding.py": rounding,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: payments\nVersion: {version}\n",
        f"{info}/entry_points.txt": "[capset.agents]\nclerk = payments.tools:clerk\n",
    }
    shutil.rmtree(SITE, ignore_errors=True)
    for path, text in {**files, f"{info}/RECORD": "".join(f"{path},,\n" for path in files)}.items():
        (SITE / path).parent.mkdir(parents=True, exist_ok=True)
        (SITE / path).write_text(text, encoding="utf-8")


def capset(*arguments: str, code: int = 0) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SITE), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(["capset", *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == code, done
    return done.stdout


def fingerprint(envelope: str) -> Any:
    return json.loads(capset("fingerprint", "clerk", "--envelope", envelope, "--json"))


install("1.0", "def rounded(amount):\n    return round(amount, 2)\n")
first = fingerprint("first.json")
print(capset("fingerprint", "clerk"))

# A release that no declaration tells of: the schema, the effect and the permissions are what they were.
install("1.1", "def rounded(amount):\n    return round(amount, 2) + 0.01\n")
second = fingerprint("second.json")
assert [second[name] for name in ("static_hash", "runtime_hash", "prompt_hash")] == [
    first[name] for name in ("static_hash", "runtime_hash", "prompt_hash")
]
assert [envelope["code"][0]["version"] for envelope in (first, second)] == ["1.0", "1.1"]
assert first["tools"][0]["code_hash"] != second["tools"][0]["code_hash"]

print(capset("diff", "first.json", "second.json", "--exit-code", code=3))  # a build stops here

# The hash is that of the files' bytes, and of nothing else: no capset is needed to compute it.
shown = second["tools"][0]["code_hash"]
found = sorted(SITE.glob("payments/*.py"))
payload = {
    "kind": "code",
    "files": [
        {"path": path.relative_to(SITE).as_posix(), "digest": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in found
    ],
}
assert hashlib.sha256(rfc8785.dumps(payload)).hexdigest() == shown
assert json.loads(capset("fingerprint", "clerk", "--payload", shown)) == payload
print(f"recomputed {shown[:12]} from {len(found)} files")
