// The client of the TypeScript SDK as a program that knows a URL: it signs in, calls tools, and asks for scopes it lacks.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { url, callback, calls } = JSON.parse(process.argv[2]);
const kept = {};
const authProvider = {
  redirectUrl: callback,
  clientMetadata: { redirect_uris: [callback], token_endpoint_auth_method: "none" },
  clientInformation: () => ({ client_id: "desk" }),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  // The person who signs in consents at once: the browser is sent back with a code.
  redirectToAuthorization: async (address) => {
    const answer = await fetch(address, { redirect: "manual" });
    kept.code = new URL(answer.headers.get("location")).searchParams.get("code");
  },
};

let transport;
async function signedIn(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(kept.code);
    return await work();
  }
}

let client;
await signedIn(async () => {
  client = new Client({ name: "capset-tests", version: "1" });
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  await client.connect(transport);
});
for (const call of calls) {
  const result = await signedIn(() => client.callTool(call));
  console.log(JSON.stringify([result.isError ?? false, result.content[0].text, kept.tokens.scope]));
}
await client.close();
