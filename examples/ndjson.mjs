// capset from JavaScript, without a package: a process that takes messages on stdin and answers them on stdout, one JSON
// object a line. The tool here is one of an installed package; for those of a configuration file: `capset kernel --agent FILE`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";

const KETTLE = `
from collections.abc import AsyncIterator

from capset import Agent, Capability, Progress, Reply, tool


@tool(effect="write")
async def boil(cups: int) -> AsyncIterator[Progress | Reply[int]]:
    """Boil water for some cups of tea."""
    for cup in range(cups):
        yield Progress(cup / cups, f"cup {cup + 1}")
    yield Reply(cups)


kettle = Capability("kettle", tools=[boil])
host = Agent("host", uses=[kettle])
`;

// What an installer would lay down: the module, and the names by which capset finds what is in it.
const folder = mkdtempSync(join(tmpdir(), "capset-ndjson-"));
const metadata = join(folder, "kettle-1.0.dist-info");
mkdirSync(metadata);
writeFileSync(join(folder, "kettle.py"), KETTLE);
writeFileSync(join(metadata, "METADATA"), "Metadata-Version: 2.1\nName: kettle\nVersion: 1.0\n");
writeFileSync(
  join(metadata, "entry_points.txt"),
  "[capset.capabilities]\nkettle = kettle:kettle\n[capset.agents]\nhost = kettle:host\n",
);

const path = [folder, process.env.PYTHONPATH].filter(Boolean).join(delimiter);
const kernel = spawn("capset", ["kernel", "--agent", "host", "--principal", "ada"], {
  env: { ...process.env, PYTHONPATH: path },
  stdio: ["pipe", "pipe", "inherit"],
});
const closed = once(kernel, "close");
const send = (message) => kernel.stdin.write(`${JSON.stringify(message)}\n`);

// An id of one's own comes back as the causation of all that the message leads to: calls run beside each other.
send({ kind: "command", type: "boil", data: { cups: 2 }, meta: { id: "tea" } });
send({ kind: "command", type: "boil", data: { cups: "many" }, meta: { id: "too much" } });
kernel.stdin.write("this is no message\n");
kernel.stdin.end(); // what was asked is still answered

const replies = {};
const errors = [];
for await (const line of createInterface({ input: kernel.stdout })) {
  const { kind, type, data, meta } = JSON.parse(line);
  if (kind === "event" && type === "progress") {
    console.log(`${meta.causation}: ${Math.round(data.fraction * 100)} % ${data.message}`);
  } else if (kind === "reply") {
    console.log(`${meta.causation}: ${JSON.stringify(data)}`);
    replies[meta.causation] = data;
  } else if (kind === "error") {
    console.log(`${meta.causation ?? "?"}: ${data.status} ${data.message}`);
    errors.push(data.status);
  }
}

const [code] = await closed;
rmSync(folder, { recursive: true });
assert.equal(code, 0);
assert.deepEqual(replies, { tea: 2 });
assert.deepEqual(errors.sort(), [400, 422]);
