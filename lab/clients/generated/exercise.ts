// What somebody does with openapi-fetch and the types that openapi-typescript generates; it ends with 0 if all of it works.
//
// Arguments: the server's address, a key, an approver's key, and, while the store is locked, the id of a session. Without
// that, the last line that is printed is such an id.

import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./schema.ts";

type Schemas = components["schemas"];
type Refusal = Schemas["CallProblem"] | Schemas["Problem"];

declare const process: { argv: string[] };

function check(holds: unknown, ...told: unknown[]): asserts holds {
  if (!holds) throw new Error(JSON.stringify(told));
}

// JSON and problems: without it, the data of a call may be the text of a stream of events.
type Json = `application/${string}json`;
type Capset = Client<paths, Json>;

function clientOf(url: string, key: string): Capset {
  return createClient<paths, Json>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });
}

function call(client: Capset, id: string, tool: string, args: Record<string, unknown> = {}, approval?: string) {
  const body: Schemas["CallInput"] = { tool, arguments: args, approval: approval ?? null };
  return client.POST("/v1/sessions/{id}/calls", { params: { path: { id } }, body });
}

/** Return the answer to a call that was refused in its session, after checking that it is this one. */
async function refused(
  status: number,
  code: string,
  asked: Promise<{ error?: Refusal; response: Response }>,
): Promise<Schemas["CallProblem"]> {
  const { error, response } = await asked;
  check(error && "record" in error, error);
  check(response.status === status && error.status === status && error.code === code, error);
  check(response.headers.get("content-type") === "application/problem+json");
  check(error.error.message === error.detail && !error.success && error.record, error);
  return error;
}

/** Check that a request was refused before anything else came of it. */
async function problem(status: number, asked: Promise<{ error?: Schemas["Problem"]; response: Response }>): Promise<void> {
  const { error, response } = await asked;
  check(error && response.status === status && error.status === status && !("record" in error), error);
}

async function succeed(client: Capset): Promise<string> {
  const made = await client.POST("/v1/agents", { body: { name: "helper", capabilities: ["shop"] } });
  check(made.data, made.error);
  const agent = { params: { path: { id: made.data.id } } };
  const patched = await client.PATCH("/v1/agents/{id}", {
    ...agent,
    body: { capabilities: ["shop", { id: "session_file_system" }], model: null },
    headers: { "Content-Type": "application/merge-patch+json" },
  });
  check(patched.data?.version === 2, patched.error);
  const session = await client.POST("/v1/sessions", { body: { agent_id: made.data.id } });
  check(session.data, session.error);
  const id = session.data.id;
  const done = await call(client, id, "add", { a: 2, b: 3 });
  check(done.data?.success && done.data.data === 5, done.error);

  const content = new Uint8Array([0, 255, 123, 125]);
  const file = { params: { path: { id, path: "a folder/ü.bin" } } };
  const written = await client.PUT("/v1/sessions/{id}/files/{path}", {
    ...file,
    body: "",
    bodySerializer: () => content,
    headers: { "Content-Type": "application/octet-stream" },
  });
  check(written.data?.created, written.error);
  const read = await client.GET("/v1/sessions/{id}/files/{path}", { ...file, parseAs: "arrayBuffer" });
  check(read.data && new Uint8Array(read.data).join() === content.join(), read.error);
  const gone = await client.DELETE("/v1/sessions/{id}/files/{path}", file);
  check(gone.response.status === 204, gone.error);

  const params = { path: { id } };
  for (const shown of [
    await client.GET("/v1/agents/{id}", agent),
    await client.GET("/v1/sessions/{id}/snapshot", { params }),
    await client.GET("/v1/sessions/{id}/state", { params }),
    await client.GET("/v1/sessions/{id}/events", {
      params: { path: { id }, query: { follow: false } },
      parseAs: "text",
    }),
    await client.GET("/v1/capabilities"),
    await client.GET("/v1/audit"),
    await client.GET("/v1/metrics", { parseAs: "text" }),
    await client.GET("/v1/healthz"),
    await client.GET("/v1/readyz"),
  ])
    check(shown.data !== undefined, shown.error);
  return id;
}

async function beRefused(client: Capset, approver: Capset, url: string, id: string): Promise<void> {
  await refused(403, "permission_denied", call(client, id, "unlock"));
  await refused(404, "not_found", call(client, id, "ad"));
  const misfit = await refused(422, "invalid_arguments", call(client, id, "add", { a: 1, c: 2 }));
  check(misfit.fields?.map((field) => field.path).join() === "b,c", misfit);
  check((await call(client, id, "ring")).data?.success);
  const limited = await refused(429, "limit_exceeded", call(client, id, "ring"));
  check(limited.retry_after && limited.retryable, limited);

  const asking = await call(client, id, "pay", { to: "bob" });
  check(asking.response.status === 202 && asking.data?.approval, asking.error);
  const params = { path: { id: asking.data.approval } };
  const decided = await approver.POST("/v1/approvals/{id}/approve", { params, body: {} });
  check(decided.data?.status === "approved", decided.error);
  await refused(409, "approval_void", call(client, id, "pay", { to: "eve" }, asking.data.approval));
  const paid = await call(client, id, "pay", { to: "bob" }, asking.data.approval);
  check(paid.data?.data === "bob has it", paid.error);

  await problem(401, clientOf(url, "capset_nobody").GET("/v1/agents"));
  await problem(403, client.POST("/v1/approvals/{id}/approve", { params, body: {} }));
  await problem(404, call(client, "nowhere", "add"));
  await problem(409, client.PATCH("/v1/agents/{id}", { params: { path: { id: "clerk" } }, body: { description: "" } }));
  await problem(422, client.POST("/v1/agents", { body: { name: "n", capabilities: ["shopp"] } }));
}

async function pageThrough(client: Capset): Promise<void> {
  const made: string[] = [];
  for (let count = 0; count < 5; count++) {
    const session = await client.POST("/v1/sessions", { body: { agent_id: "clerk" } });
    check(session.data, session.error);
    made.unshift(session.data.id);
  }
  const found: string[] = [];
  let cursor: string | undefined;
  do {
    const query = { agent_id: "clerk", limit: 2, ...(cursor && { cursor }) };
    const page = await client.GET("/v1/sessions", { params: { query } });
    check(page.data && page.data.items.length <= 2, page.error);
    found.push(...page.data.items.map((one) => one.id));
    cursor = page.data.next ?? undefined;
  } while (cursor);
  check(found.join() === made.join(), found, made);
}

const [url, key, approverKey, locked] = process.argv.slice(2);
check(url && key && approverKey);
const client = clientOf(url, key);
if (locked) {
  check((await refused(503, "store_busy", call(client, locked, "note", { text: "x" }))).retryable);
} else {
  const session = await succeed(client);
  await beRefused(client, clientOf(url, approverKey), url, session);
  await pageThrough(client);
  console.log(session);
}
