// AG-UI's own client at an agent. Each line of stdin is something to do; each line of stdout has the events of its run,
// the interrupts that are open, and an error.
import { createInterface } from "node:readline";

import { HttpAgent } from "@ag-ui/client";

const { url, key, thread } = JSON.parse(process.argv[2]);
const agent = new HttpAgent({ url, threadId: thread, headers: { Authorization: `Bearer ${key}` } });

for await (const line of createInterface({ input: process.stdin })) {
  const { say, answer } = JSON.parse(line);
  const events = [];
  let error = null;
  if (say !== undefined) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: say });
  const resume = answer && [{ interruptId: answer.id, status: "resolved", payload: { approved: answer.approved } }];
  try {
    await agent.runAgent(resume ? { resume } : {}, { onEvent: ({ event }) => void events.push(event) });
  } catch (problem) {
    error = String(problem.message ?? problem);
  }
  console.log(JSON.stringify({ events, error, messages: agent.messages }));
}
