// A chat by the AI SDK that remembers. The model is scripted, so that the example needs no key of a provider.
import { generateText, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Mnema } from "mnema-client";
import { mnemaMiddleware } from "mnema-client/ai-sdk";

const scripted = new MockLanguageModelV4({
  doGenerate: async ({ prompt }) => ({
    content: [{ type: "text", text: `I read ${prompt.length} messages: ${JSON.stringify(prompt[0]?.content)}` }],
    finishReason: { unified: "stop", raw: "stop" },
    usage: {
      inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 0, text: 0, reasoning: 0 },
    },
    warnings: [],
  }),
});

const memory = new Mnema();
await memory.remember("Maya has to avoid nuts.", { user_id: "maya", category: "constraints" });
const middleware = mnemaMiddleware({ memory, user_id: "maya", agent: "executor", thread_id: "lunch" });
const model = wrapLanguageModel({ model: scripted, middleware });
console.log((await generateText({ model, prompt: "What may I eat?" })).text);
for await (const turn of memory.turns.list("lunch", { user_id: "maya" })) console.log(`${turn.role}: ${turn.content}`);
