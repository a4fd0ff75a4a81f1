// The npm package `openai`: what it returns for each question.
// Run it in a folder whose node_modules has the package: node with_openai.mjs BASE_URL KEY
import { ask, conversation, lookAt, packageOf, PICTURE, report, shape, tool } from "./questions.mjs";

const { OpenAI } = packageOf("openai");
const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const create = (body) => client.chat.completions.create({ model: ask.model, ...body });

async function callTool() {
  const messages = conversation(ask.weather);
  const called = await create({ messages, tools: [tool] });
  const message = called.choices[0].message;
  const result = { role: "tool", tool_call_id: message.tool_calls[0].id, content: ask.tool_result };
  return [called, await create({ messages: [...messages, message, result], tools: [tool] })];
}

async function chunksOf(body) {
  const chunks = [];
  for await (const chunk of await create({ ...body, stream: true })) chunks.push(chunk);
  return chunks;
}

async function callToolStreamed() {
  const stream = client.chat.completions.stream({ model: ask.model, messages: conversation(ask.weather), tools: [tool] });
  return stream.finalChatCompletion();
}

report({
  ask_plain: await create({ messages: conversation(ask.plain) }),
  ask_streamed: await chunksOf({ messages: conversation(ask.streamed), stream_options: { include_usage: true } }),
  call_tool: await callTool(),
  call_tool_chunks: await chunksOf({ messages: conversation(ask.weather), tools: [tool] }),
  call_tool_streamed: await callToolStreamed(),
  ask_shape: await create({ messages: conversation(ask.shape), response_format: shape }),
  ask_look: await create({ messages: lookAt(ask.look, PICTURE) }),
  list_models: (await client.models.list()).data,
});
