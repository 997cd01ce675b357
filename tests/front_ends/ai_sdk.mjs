// The AI SDK's chat, as useChat has it in a browser, at an agent. Each line of stdin is something to do; each line of
// stdout says what the chat has then.
import { createInterface } from "node:readline";

import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";

const { url, key, thread } = JSON.parse(process.argv[2]);

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, message));
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor(options) {
    super({ ...options, state: new State() });
  }
}

let data = []; // what is told beside the messages
const chat = new Chat({
  id: thread,
  onData: (part) => void data.push(part),
  transport: new DefaultChatTransport({ api: url, headers: { Authorization: `Bearer ${key}` } }),
  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
});

async function settled() {
  while (["submitted", "streaming"].includes(chat.status)) await new Promise((done) => setTimeout(done, 20));
}

for await (const line of createInterface({ input: process.stdin })) {
  const { say, answer, again } = JSON.parse(line);
  data = [];
  if (say !== undefined) await chat.sendMessage({ text: say });
  if (answer !== undefined) await chat.addToolApprovalResponse({ id: answer.id, approved: answer.approved });
  if (again) await chat.sendMessage();
  await new Promise((done) => setTimeout(done, 50)); // what is sent automatically has begun
  await settled();
  const parts = chat.messages.flatMap((message) => (message.role === "assistant" ? message.parts : []));
  console.log(JSON.stringify({ status: chat.status, error: chat.error?.message ?? null, parts, data }));
}
