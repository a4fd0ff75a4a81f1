import type { Asking, Mnema } from "./client.js";
import { MnemaError } from "./errors.js";

/** The heading of what is recalled. */
export const RECALLED = "What is remembered of the user:";

export interface MiddlewareOptions extends Asking {
  memory: Mnema;
  /** The conversation, to which what is said is stored. */
  thread_id: string;
  /** Whether what is said is stored; by default true. */
  store?: boolean;
  /** Called with a failure of the memory, and the model answers without it. By default the failure is thrown. */
  onError?: (error: MnemaError) => void;
}

// The few parts of the AI SDK's types that the middleware reads. They are the same in its versions 6 and 7.
interface Part {
  type: string;
  text?: string;
}
interface Message {
  role: string;
  content: string | Part[];
}
interface Parameters {
  prompt: Message[];
}
interface FinishReason {
  unified: string;
}
interface Generated {
  content: Part[];
  finishReason: FinishReason;
}
interface StreamPart {
  type: string;
  delta?: string;
  finishReason?: FinishReason;
}

/**
 * Return a middleware for `wrapLanguageModel` of the AI SDK, for one user's conversation.
 *
 * Before the model it recalls by the user's newest message, once for each message, and puts the answer behind the
 * system messages. After an answer that needs no more tools it stores the user's message and the answer as turns.
 */
export function mnemaMiddleware(options: MiddlewareOptions) {
  const { memory, store = true, onError, ...asking } = options;
  let last: { asked: string; known: string } | undefined;

  async function guard<T>(work: Promise<T>): Promise<T | undefined> {
    try {
      return await work;
    } catch (error) {
      if (onError === undefined || !(error instanceof MnemaError)) throw error;
      onError(error);
      return undefined;
    }
  }

  async function recall(prompt: Message[], signal?: AbortSignal): Promise<string> {
    const asked = newestMessage(prompt);
    const isToolStep = prompt.at(-1)?.role === "tool";
    if (asked === "") return "";
    if (isToolStep && last?.asked === asked) return last.known;
    const known = (await guard(memory.recall([...asked].slice(0, LONGEST_QUESTION).join(""), asking, withSignal(signal)))) ?? "";
    last = { asked, known };
    return known;
  }

  async function storeTurns(prompt: Message[], said: string, reason: FinishReason | undefined): Promise<void> {
    const asked = newestMessage(prompt);
    if (!store || asked === "" || said.trim() === "" || reason === undefined || UNFINISHED.has(reason.unified)) return;
    const place = { user_id: options.user_id, thread_id: options.thread_id };
    await memory.turns.store({ ...place, role: "user", content: asked }, { trim: true });
    await memory.turns.store({ ...place, role: "assistant", content: said }, { trim: true });
  }

  return {
    specificationVersion: "v3" as const,

    async transformParams<P extends Parameters & { abortSignal?: AbortSignal | undefined }>(call: {
      params: P;
    }): Promise<P> {
      const known = await recall(call.params.prompt, call.params.abortSignal);
      return known === "" ? call.params : { ...call.params, prompt: withKnown(call.params.prompt, known) };
    },

    async wrapGenerate<R extends Generated>(call: {
      doGenerate: () => PromiseLike<R>;
      params: Parameters;
    }): Promise<R> {
      const result = await call.doGenerate();
      await guard(storeTurns(call.params.prompt, textOf(result.content), result.finishReason));
      return result;
    },

    async wrapStream<P extends StreamPart, R extends { stream: ReadableStream<P> }>(call: {
      doStream: () => PromiseLike<R>;
      params: Parameters;
    }): Promise<R> {
      const result = await call.doStream();
      const said: string[] = [];
      let reason: FinishReason | undefined;
      const kept = new TransformStream<P, P>({
        transform(part, controller) {
          if (part.type === "text-delta") said.push(part.delta ?? "");
          if (part.type === "finish") reason = part.finishReason;
          controller.enqueue(part);
        },
        flush: async () => void (await guard(storeTurns(call.params.prompt, said.join(""), reason))),
      });
      return { ...result, stream: result.stream.pipeThrough(kept) };
    },
  };
}

/** A question may have 8,000 characters. */
const LONGEST_QUESTION = 8_000;
/** Reasons for which an answer ends that is none yet. */
const UNFINISHED = new Set(["tool-calls", "error"]);

function withSignal(signal: AbortSignal | undefined) {
  return signal === undefined ? {} : { signal };
}

function newestMessage(prompt: Message[]): string {
  const message = prompt.findLast(({ role }) => role === "user");
  return message === undefined ? "" : textOf(message.content).trim();
}

function textOf(content: string | Part[]): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? (part.text ?? "") : "")).join("");
}

function withKnown<M extends Message>(prompt: M[], known: string): M[] {
  const first = prompt.findIndex(({ role }) => role !== "system");
  const told = { role: "system", content: `${RECALLED}\n${known}` } as M;
  return [...prompt.slice(0, first), told, ...prompt.slice(first)];
}
