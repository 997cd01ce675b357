// The AI SDK's chat, as useChat has it in a browser, at an agent. Each line of stdin is something to do; each line of
// stdout says what the chat has then.
import { createInterface } from "node:readline";

import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";

const { url, key, thread } = JSON.parse(process.argv[2]);

class State {
  status = "ready";
  error = undefined;
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, message));
  snapshot = (value) => structuredClone(value);

  constructor(messages) {
    this.messages = messages;
  }
}

class Chat extends AbstractChat {
  constructor(messages) {
    super({
      id: thread,
      onData: (part) => void data.push(part),
      transport: new DefaultChatTransport({ api: url, headers }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      state: new State(messages),
    });
  }
}

const headers = { Authorization: `Bearer ${key}` };
let data = []; // what is told beside the messages
let chat = new Chat([]);

async function settled() {
  while (["submitted", "streaming"].includes(chat.status)) await new Promise((done) => setTimeout(done, 20));
}

for await (const line of createInterface({ input: process.stdin })) {
  const { say, answer, again, load } = JSON.parse(line);
  data = [];
  if (load) {
    // As a page does that loads again.
    const loaded = await fetch(`${url}/${encodeURIComponent(thread)}`, { headers });
    chat = new Chat((await loaded.json()).messages);
    await chat.resumeStream();
  }
  if (say !== undefined) await chat.sendMessage({ text: say });
  if (answer !== undefined) await chat.addToolApprovalResponse({ id: answer.id, approved: answer.approved });
  if (again) await chat.sendMessage();
  await new Promise((done) => setTimeout(done, 50)); // what is sent automatically has begun
  await settled();
  const parts = chat.messages.flatMap((message) => (message.role === "assistant" ? message.parts : []));
  console.log(JSON.stringify({ status: chat.status, error: chat.error?.message ?? null, parts, data }));
}
