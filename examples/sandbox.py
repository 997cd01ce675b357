"""Run Python and bash over a session's files: bounded, cut off from everything else, and on record."""

import asyncio
import json

from capset import Agent, Kernel, Principal
from capset.stores.base import AuditQuery
from capset_tools.sandbox import SandboxConfig, sandbox

analyst = Agent("analyst", system_prompt="You reckon with code.", uses=[sandbox.with_config(SandboxConfig(seconds=2))])

SUM = """
import csv
rows = list(csv.DictReader(open('/sales.csv')))
total = sum(int(row['amount']) for row in rows)
open('/total.txt', 'w').write(f'{total}\\n')
total
"""


async def main() -> None:
    assert sandbox.readiness is not None
    machine = sandbox.readiness()
    has_bash = machine["bash"] == "isolated-bash"
    if not has_bash:
        print(f"This machine has no namespaces to run bash in, so only Python is shown, by {machine['python']}.")
    ada = Principal("ada", permissions={"sandbox:execute", "session_files:read", "session_files:write"})
    async with Kernel(store="memory://") as kernel, kernel.open(analyst, principal=ada) as session:
        execute = session.snapshot.tools["execute_code"].tool
        await session.files.write("/sales.csv", b"day,amount\nmon,12\ntue,30\n")

        done = await session.call(execute, language="python", code=SUM)
        print("python:", done["value"], done["files"]["created"])
        if has_bash:
            script = "sort -t, -k2 -rn sales.csv | head -1; cat total.txt"
            done = await session.call(execute, language="bash", code=script)
            print("bash:", done["stdout"].split())

        for language, code in (
            ("python", "open('/etc/passwd').read()"),
            ("bash", "curl https://example.org"),
            ("bash", "rm /sales.csv; sleep 60"),
            ("python", "'x' * 10**12"),
        ):
            if language == "bash" and not has_bash:
                continue
            done = await session.call(execute, language=language, code=code)
            lines = (done["error"] or done["stderr"] or "without a word").strip().splitlines()
            print(f"{done['stopped'] or 'refused'}:", lines[0 if language == "bash" else -1])
        print("still there:", [file.path for file in await session.files.list()])

        records = (await kernel.audit.query(AuditQuery(tool="execute_code"))).items
        digests = [json.loads(record.arguments)["code#sha256"] for record in records]
        print("on record:", len(records), digests[0] == done["code_sha256"])


asyncio.run(main())
