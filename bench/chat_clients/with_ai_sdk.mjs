// The Vercel AI SDK (`ai` and a provider's package): what it returns for each question.
// Run it in a folder whose node_modules has both packages: node with_ai_sdk.mjs BASE_URL KEY [responses|messages]
import { ask, conversation, packageOf, report } from "./questions.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false; // they would stand among the answers
const { generateText, jsonSchema, Output, stepCountIs, streamText, tool } = packageOf("ai");
const [baseURL, apiKey, api = "compatible"] = process.argv.slice(2);
const providers = {
  compatible: () => {
    const { createOpenAICompatible } = packageOf("@ai-sdk/openai-compatible");
    return createOpenAICompatible({ name: "mnema", baseURL, apiKey, supportsStructuredOutputs: true, includeUsage: true });
  },
  responses: () => packageOf("@ai-sdk/openai").createOpenAI({ baseURL, apiKey }),
  messages: () => packageOf("@ai-sdk/anthropic").createAnthropic({ baseURL, apiKey }),
};
const usual = { model: providers[api]()(ask.model), maxRetries: 0 };
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
