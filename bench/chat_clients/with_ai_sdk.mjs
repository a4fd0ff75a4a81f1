// The Vercel AI SDK (`ai`, `@ai-sdk/openai-compatible`): what it returns for each question.
// Run it in a folder whose node_modules has both packages: node with_ai_sdk.mjs BASE_URL KEY
import { ask, conversation, packageOf, report } from "./questions.mjs";

const { generateText, jsonSchema, Output, stepCountIs, streamText, tool } = packageOf("ai");
const { createOpenAICompatible } = packageOf("@ai-sdk/openai-compatible");
const [baseURL, apiKey] = process.argv.slice(2);
const provider = createOpenAICompatible({ name: "mnema", baseURL, apiKey, supportsStructuredOutputs: true, includeUsage: true });
const usual = { model: provider(ask.model), maxRetries: 0 };
const tools = {
  get_weather: tool({
    description: ask.tool.description,
    inputSchema: jsonSchema(ask.tool.parameters),
    execute: async ({ city, days }) => `${city}, ${days} days: ${ask.tool_result}`,
  }),
};

/** Return what an application reads of a result, without times and made-up ids. */
async function read(result) {
  const steps = await result.steps;
  return {
    text: await result.text,
    finishReason: await result.finishReason,
    usage: await result.usage,
    steps: steps.map((step) => ({
      text: step.text,
      calls: step.toolCalls.map(({ toolCallId, toolName, input }) => ({ toolCallId, toolName, input })),
      results: step.toolResults.map(({ toolCallId, output }) => ({ toolCallId, output })),
      id: step.response.id,
      model: step.response.modelId,
    })),
  };
}

function prompt(text) {
  const [system, ...messages] = conversation(text);
  return { system: system.content, messages };
}

async function partsOf(options) {
  const result = streamText({ ...usual, ...options });
  const parts = [];
  for await (const part of result.fullStream) parts.push([part.type, part.text ?? part.delta ?? part.error ?? null]);
  return [parts, await read(result)];
}

const picture = { type: "image", image: Buffer.from(ask.pixel, "base64"), mediaType: "image/png" };
const look = [{ role: "user", content: [{ type: "text", text: ask.look }, picture] }];
const shaped = Output.object({ schema: jsonSchema(ask.schema) });

report({
  ask_plain: await read(await generateText({ ...usual, ...prompt(ask.plain) })),
  ask_streamed: await partsOf(prompt(ask.streamed)),
  call_tool: await read(await generateText({ ...usual, ...prompt(ask.weather), tools, stopWhen: stepCountIs(3) })),
  call_tool_streamed: await partsOf({ ...prompt(ask.weather), tools, stopWhen: stepCountIs(3) }),
  ask_shape: (await generateText({ ...usual, ...prompt(ask.shape), output: shaped })).output,
  ask_look: await read(await generateText({ ...usual, messages: look })),
});
