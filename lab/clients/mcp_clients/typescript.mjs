// The client of the TypeScript SDK as a program: a line of JSON for each call, and one for what became of it.

import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const server = JSON.parse(process.argv[2]);
const transport =
  "command" in server
    ? new StdioClientTransport(server)
    : new StreamableHTTPClientTransport(new URL(server.url), {
        requestInit: { headers: { Authorization: `Bearer ${server.key}` } },
      });
const client = new Client({ name: "capset-tests", version: "1" });
await client.connect(transport);
for await (const line of createInterface({ input: process.stdin })) {
  const result = await client.callTool(JSON.parse(line));
  console.log(JSON.stringify([result.isError ?? false, result.content[0].text]));
}
await client.close();
