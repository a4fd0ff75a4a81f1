// The npm package `openai` with Responses and embeddings: what it returns for each question.
// Run it in a folder whose node_modules has the package: node with_openai_responses.mjs BASE_URL KEY
import { ask, conversation, packageOf, PICTURE, report } from "./questions.mjs";

const { OpenAI } = packageOf("openai");
const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const create = (body) => client.responses.create({ model: ask.model, ...body });
const tools = [{ type: "function", strict: true, ...ask.tool }];
const format = { type: "json_schema", name: "place", schema: ask.schema, strict: true };

async function callTool() {
  const input = conversation(ask.weather);
  const called = await create({ input, tools });
  const [call] = called.output;
  const result = { type: "function_call_output", call_id: call.call_id, output: ask.tool_result };
  return [called, await create({ input: [...input, call, result], tools })];
}

async function eventsOf(body) {
  const events = [];
  for await (const event of await create({ ...body, stream: true })) events.push(event);
  return events;
}

const look = [{ type: "input_text", text: ask.look }, { type: "input_image", image_url: PICTURE }];

report({
  ask_plain: await create({ instructions: ask.system, input: ask.plain }),
  ask_streamed: await eventsOf({ input: conversation(ask.streamed) }),
  call_tool: await callTool(),
  call_tool_events: await eventsOf({ input: conversation(ask.weather), tools }),
  call_tool_streamed: await client.responses.stream({ model: ask.model, input: ask.weather, tools }).finalResponse(),
  ask_shape: await create({ input: ask.shape, text: { format } }),
  ask_look: await create({ input: [{ role: "user", content: look }] }),
  embed: await client.embeddings.create({ model: ask.model, input: [ask.plain, ask.look] }),
});
