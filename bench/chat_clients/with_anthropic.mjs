// The npm package `@anthropic-ai/sdk`: what it returns for each question.
// Run it in a folder whose node_modules has the package: node with_anthropic.mjs BASE_URL KEY
import { ask, conversation, packageOf, report } from "./questions.mjs";

const { Anthropic } = packageOf("@anthropic-ai/sdk");
const [baseURL, apiKey] = process.argv.slice(2);
const client = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey, maxRetries: 0 });
const usual = { model: ask.model, max_tokens: 256, system: ask.system };
const create = (body) => client.messages.create({ ...usual, ...body });
const messagesOf = (text) => conversation(text).slice(1);
const tools = [{ name: ask.tool.name, description: ask.tool.description, input_schema: ask.tool.parameters }];

async function callTool() {
  const messages = messagesOf(ask.weather);
  const called = await create({ messages, tools });
  const [use] = called.content;
  const result = { type: "tool_result", tool_use_id: use.id, content: ask.tool_result };
  const said = [{ role: "assistant", content: called.content }, { role: "user", content: [result] }];
  return [called, await create({ messages: [...messages, ...said], tools })];
}

async function eventsOf(body) {
  const events = [];
  for await (const event of await create({ ...body, stream: true })) events.push(event);
  return events;
}

const source = { type: "base64", media_type: "image/png", data: ask.pixel };
const look = [{ type: "image", source }, { type: "text", text: ask.look }];

report({
  ask_plain: await create({ messages: messagesOf(ask.plain) }),
  ask_streamed: await eventsOf({ messages: messagesOf(ask.streamed) }),
  call_tool: await callTool(),
  call_tool_streamed: await client.messages.stream({ ...usual, messages: messagesOf(ask.weather), tools }).finalMessage(),
  ask_look: await create({ messages: [{ role: "user", content: look }] }),
  count_tokens: await client.messages.countTokens({ model: ask.model, messages: messagesOf(ask.plain) }),
});
