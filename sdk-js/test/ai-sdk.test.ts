import assert from "node:assert/strict";
import { describe, test } from "node:test";

import * as ai7 from "ai";
import { MockLanguageModelV4 } from "ai/test";
import * as ai6 from "ai6";
import { MockLanguageModelV3 } from "ai6/test";
import { Mnema, MnemaError } from "mnema-client";
import { mnemaMiddleware, RECALLED } from "mnema-client/ai-sdk";
import { z } from "zod";

import { newUser, realMemory } from "./server.js";

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const STOP = { unified: "stop" as const, raw: "stop" };
const QUESTION = "On which day do I deploy?";

type Prompt = { role: string; content: unknown }[];

/** What a scripted model says: a text, or a call of the tool `clock`. */
type Said = { text: string } | { call: string };

function generated(said: Said) {
  if ("text" in said) return { content: [{ type: "text" as const, text: said.text }], finishReason: STOP };
  const call = { type: "tool-call" as const, toolCallId: said.call, toolName: "clock", input: "{}" };
  return { content: [call], finishReason: { unified: "tool-calls" as const, raw: "tool_calls" } };
}

function streamed(text: string) {
  return new ReadableStream({
    start(controller) {
      controller.enqueue({ type: "stream-start" as const, warnings: [] });
      controller.enqueue({ type: "text-start" as const, id: "1" });
      for (const delta of text.split(/(?<= )/)) controller.enqueue({ type: "text-delta" as const, id: "1", delta });
      controller.enqueue({ type: "text-end" as const, id: "1" });
      controller.enqueue({ type: "finish" as const, finishReason: STOP, usage: USAGE });
      controller.close();
    },
  });
}

/** A model that says what a script says and keeps its prompts, wrapped by the middleware, in one version of the SDK. */
function wrapped(version: 6 | 7, middleware: ReturnType<typeof mnemaMiddleware>, script: Said[]) {
  const prompts: Prompt[] = [];
  const next = () => script.shift() ?? { text: "Nothing more." };
  const doGenerate = async ({ prompt }: { prompt: Prompt }) => {
    prompts.push(prompt);
    return { ...generated(next()), usage: USAGE, warnings: [] };
  };
  const doStream = async ({ prompt }: { prompt: Prompt }) => {
    prompts.push(prompt);
    const said = next();
    return { stream: streamed("text" in said ? said.text : "") };
  };
  const tools = { clock: { description: "the time", inputSchema: z.object({}), execute: async () => "noon" } };
  if (version === 6) {
    const model = ai6.wrapLanguageModel({ model: new MockLanguageModelV3({ doGenerate, doStream }), middleware });
    const stopWhen = ai6.stepCountIs(3);
    return {
      prompts,
      generate: async (prompt: string) => (await ai6.generateText({ model, prompt, tools, stopWhen, maxRetries: 0 })).text,
      stream: (prompt: string) => ai6.streamText({ model, prompt }).text,
    };
  }
  const model = ai7.wrapLanguageModel({ model: new MockLanguageModelV4({ doGenerate, doStream }), middleware });
  const stopWhen = ai7.stepCountIs(3);
  return {
    prompts,
    generate: async (prompt: string) => (await ai7.generateText({ model, prompt, tools, stopWhen, maxRetries: 0 })).text,
    stream: (prompt: string) => ai7.streamText({ model, prompt }).text,
  };
}

async function newConversation() {
  const memory = realMemory();
  const about = { user_id: newUser(), agent: "planner", thread_id: "chat-1" };
  await memory.remember("Maya deploys to staging every Thursday.", { user_id: about.user_id, category: "tasks" });
  return { memory, ...about };
}

async function turnsOf({ memory, user_id, thread_id }: { memory: Mnema; user_id: string; thread_id: string }) {
  const turns: string[] = [];
  for await (const turn of memory.turns.list(thread_id, { user_id })) turns.push(`${turn.role}: ${turn.content}`);
  return turns;
}

for (const version of [6, 7] as const) {
  describe(`version ${version} of the AI SDK`, () => {
    test("the model reads what is remembered, and both sides are stored", async () => {
      const conversation = await newConversation();
      const chat = wrapped(version, mnemaMiddleware(conversation), [{ text: "On Thursdays." }]);
      assert.equal(await chat.generate(QUESTION), "On Thursdays.");
      const [told, asked] = chat.prompts[0] ?? [];
      assert.equal(told?.role, "system");
      assert.ok(String(told?.content).startsWith(RECALLED), String(told?.content));
      assert.match(String(told?.content), /every Thursday/);
      assert.equal(asked?.role, "user");
      assert.deepEqual(await turnsOf(conversation), [`user: ${QUESTION}`, "assistant: On Thursdays."]);
    });

    test("a streamed answer passes through and is stored", async () => {
      const conversation = await newConversation();
      const chat = wrapped(version, mnemaMiddleware(conversation), [{ text: "You deploy on Thursdays." }]);
      assert.equal(await chat.stream(QUESTION), "You deploy on Thursdays.");
      assert.match(JSON.stringify(chat.prompts[0]), /every Thursday/);
      assert.deepEqual(await turnsOf(conversation), [`user: ${QUESTION}`, "assistant: You deploy on Thursdays."]);
    });

    test("the steps of a tool recall once and store once", async () => {
      const conversation = await newConversation();
      let recalled = 0;
      const counting: typeof fetch = (input, init) => {
        if (input instanceof Request && input.url.endsWith("/memory/query")) recalled += 1;
        return fetch(input, init);
      };
      const memory = realMemory({ fetch: counting });
      const chat = wrapped(version, mnemaMiddleware({ ...conversation, memory }), [{ call: "1" }, { text: "At noon." }]);
      assert.equal(await chat.generate(QUESTION), "At noon.");
      assert.equal(chat.prompts.length, 2);
      for (const prompt of chat.prompts) assert.match(JSON.stringify(prompt), /every Thursday/);
      assert.equal(recalled, 1);
      assert.deepEqual(await turnsOf(conversation), [`user: ${QUESTION}`, "assistant: At noon."]);
    });

    test("a message that is too long for a question and for a turn is cut", async () => {
      const conversation = await newConversation();
      const chat = wrapped(version, mnemaMiddleware(conversation), [{ text: "Much." }]);
      await chat.generate("deploy 🙂".repeat(6_000));
      assert.match(JSON.stringify(chat.prompts[0]), /every Thursday/);
      const [asked, said] = await turnsOf(conversation);
      assert.ok(asked?.startsWith("user: deploy 🙂"));
      assert.equal(said, "assistant: Much.");
    });

    test("with store: false nothing is stored", async () => {
      const conversation = await newConversation();
      const chat = wrapped(version, mnemaMiddleware({ ...conversation, store: false }), [{ text: "Noted." }]);
      assert.equal(await chat.generate(QUESTION), "Noted.");
      assert.deepEqual(await turnsOf(conversation), []);
    });

    test("a failure of the memory is thrown, or told to onError while the model answers", async () => {
      const refusing = new Mnema({ url: process.env.MNEMA_URL ?? "", key: "mnema_wrong" });
      const about = { memory: refusing, user_id: "maya", agent: "planner", thread_id: "chat-1" };
      const strict = wrapped(version, mnemaMiddleware(about), [{ text: "Hello." }]);
      await assert.rejects(strict.generate(QUESTION), (error: MnemaError) => error.code === "unauthenticated");
      const told: string[] = [];
      const onError = (error: MnemaError) => void told.push(error.code);
      const lenient = wrapped(version, mnemaMiddleware({ ...about, onError }), [{ text: "Hello." }]);
      assert.equal(await lenient.generate(QUESTION), "Hello.");
      assert.deepEqual(told, ["unauthenticated", "unauthenticated"]);
    });
  });
}
