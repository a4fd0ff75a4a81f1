import createClient, { defaultPathSerializer, type Client } from "openapi-fetch";

import { type ChangeEvent, readChange, readEvents } from "./changes.js";
import { MnemaError } from "./errors.js";
import type { components, paths } from "./schema.js";
import { createSend, type Retry, type Send, sleep, type Transport } from "./transport.js";

type Schemas = components["schemas"];
type QueryOf<Path extends "/changes" | "/facts" | "/threads/{thread_id}/turns"> = NonNullable<
  paths[Path]["get"]["parameters"]["query"]
>;
type Where = Record<string, unknown>;

export type NewMemory = Schemas["NewMemory"];
export type Written = Schemas["Written"];
export type Question = Schemas["Question"];
export type Answer = Schemas["Answer"];
export type Item = Schemas["Item"];
export type NewTurn = Schemas["NewTurn"];
export type Turn = Schemas["Turn"];
export type ThreadTurn = Schemas["ThreadTurn"];
export type Statement = Schemas["Statement"];
export type StoredFacts = Schemas["StoredFacts"];
export type FactQuestion = Schemas["FactQuestion"];
export type FactReply = Schemas["FactReply"];
export type Fact = Schemas["Fact"];
/** The fields of a memory besides its text. */
export type About = Omit<NewMemory, "text">;
/** The fields of a question besides its text, and the user whom it is about. */
export type Asking = Omit<Question, "query" | "return" | "user_id"> & { user_id: string };
export type FactsWanted = Omit<QueryOf<"/facts">, "cursor" | "where"> & { where?: Where };
export type TurnsWanted = Omit<QueryOf<"/threads/{thread_id}/turns">, "cursor">;
/** Which changes to follow. `after`: the `id` of the last event that you dealt with; without it, begin now. */
export type ChangesWanted = Omit<QueryOf<"/changes">, "limit" | "where"> & { where?: Where };

export interface MnemaOptions {
  /** The server, such as `http://127.0.0.1:8000`; by default the variable MNEMA_URL. */
  url?: string;
  /** The API key; by default the variable MNEMA_API_KEY. */
  key?: string;
  /** Milliseconds that one try may take; by default 30,000. */
  timeoutMs?: number;
  retry?: Retry;
  /** The function that sends requests; by default the global `fetch`. */
  fetch?: typeof globalThis.fetch;
}

export interface CallOptions {
  /** Ends the call, its waits and its retries. */
  signal?: AbortSignal;
}

export interface WriteOptions extends CallOptions {
  /** Name of this write: the server does a write of one name once. By default each call has a new one. */
  idempotencyKey?: string;
}

export interface TextOptions extends WriteOptions {
  /** Whether a text that is too long is cut; by default it is refused. */
  trim?: boolean;
}

/** A client of one Mnema server. Every failure of a call is a MnemaError, or the reason of your own signal. */
export class Mnema {
  /**
   * Every route of the API by its path: `memory.http.GET("/memory/{memory_id}", …)`. The types come from the server's
   * OpenAPI document, and failures of the server or on the way to it are thrown here too.
   */
  readonly http: Client<paths>;
  readonly facts: Facts;
  readonly turns: Turns;
  readonly #read: Send;
  readonly #streamed: Send;

  constructor(options: MnemaOptions = {}) {
    const url = options.url ?? variable("MNEMA_URL");
    const key = options.key ?? variable("MNEMA_API_KEY");
    if (!url || !key) throw new TypeError("give url and key, or set MNEMA_URL and MNEMA_API_KEY");
    if (!/^https?:$/.test(new URL(url).protocol)) throw new TypeError("url must begin with http:// or https://");
    if (!/^[!-~]+$/.test(key)) throw new TypeError("the key must be printable ASCII without spaces");
    const transport: Transport = {
      fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
      timeoutMs: options.timeoutMs ?? 30_000,
      retry: { busyMs: 30_000, unreachableMs: 2_000, ...options.retry },
    };
    this.#read = createSend(transport, { repeatable: true });
    this.#streamed = createSend(transport, { streamed: true });
    this.http = createClient<paths>({
      baseUrl: url,
      headers: { Authorization: `Bearer ${key}` },
      fetch: createSend(transport),
      pathSerializer: writePath,
    });
    this.facts = new Facts(this.http, this.#read);
    this.turns = new Turns(this.http);
  }

  /** Store a text: `remember("Maya deploys on Thursdays.", { user_id: "maya" })`. */
  async remember(text: string, about: About, options: TextOptions = {}): Promise<Written> {
    return this.write({ ...about, text } as NewMemory, options);
  }

  /** Store a memory. */
  async write(memory: NewMemory, options: TextOptions = {}): Promise<Written> {
    return dataOf(this.http.POST("/memory", { body: memory, ...writing(options, trimming(options)) }));
  }

  /** Return what is known about a user, as lines for a prompt; empty if nothing helps. */
  async recall(text: string, asking: Asking, options: CallOptions = {}): Promise<string> {
    const { user_id, filters, ...rest } = asking;
    return promptOf(await this.query({ ...rest, query: text, filters: { ...filters, user_id } } as Question, options));
  }

  /** Answer a question with memories, best first. */
  async query(question: Question, options: CallOptions = {}): Promise<Answer> {
    return dataOf(this.http.POST("/memory/query", { body: question, fetch: this.#read, ...options }));
  }

  /** Run reads and writes of the store in one transaction: all reads come first. A retry of a put stores it again. */
  async storeBatch(batch: Schemas["BatchIn"], options: CallOptions = {}): Promise<Schemas["BatchOut"]> {
    return dataOf(this.http.POST("/store/batch", { body: batch, fetch: this.#read, ...options }));
  }

  /**
   * Yield the changes of memories as they come, without end.
   *
   * A stream that breaks is opened again behind the last event. After `cursor_of_other_database` (status 410) list all
   * memories again, and begin without `after`.
   */
  async *changes(wanted: ChangesWanted = {}, options: CallOptions = {}): AsyncGenerator<ChangeEvent, never> {
    const signal = options.signal ?? new AbortController().signal;
    const { where, after, ...rest } = wanted;
    let seen = after;
    for (;;) {
      const opening = this.http.GET("/changes", {
        params: { query: { ...rest, ...whereText(where) } },
        headers: { Accept: "text/event-stream", ...(seen === undefined ? {} : { "Last-Event-ID": seen }) },
        parseAs: "stream",
        fetch: this.#streamed,
        signal,
      });
      const body = await dataOf(opening);
      try {
        for await (const event of readEvents(body as ReadableStream<Uint8Array>)) {
          const change = readChange(event);
          seen = event.id;
          if (change !== undefined) yield change;
        }
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof MnemaError) throw error;
      }
      await sleep(Math.random() * 1000, signal);
    }
  }
}

/** Facts that users state: favourites and lists. The server reads and answers them without a model. */
export class Facts {
  readonly #http: Client<paths>;
  readonly #read: Send;

  constructor(http: Client<paths>, read: Send) {
    this.#http = http;
    this.#read = read;
  }

  /** Store the facts that a user's message states (`text`), or given ones (`facts`). */
  async store(statement: Statement, options: WriteOptions = {}): Promise<StoredFacts> {
    return dataOf(this.#http.POST("/facts", { body: statement, ...writing(options, {}) }));
  }

  /** Answer a question such as "What's my second favorite color?" from facts alone. `text` is null if it is none. */
  async answer(question: FactQuestion, options: CallOptions = {}): Promise<FactReply> {
    return dataOf(this.#http.POST("/facts/answer", { body: question, fetch: this.#read, ...options }));
  }

  /** Yield a user's facts by topic, thread and rank. */
  list(wanted: FactsWanted, options: CallOptions = {}): AsyncGenerator<Fact> {
    const { where, ...rest } = wanted;
    return pages(async (cursor) => {
      const query = { ...rest, ...whereText(where), ...cursor };
      return dataOf(this.#http.GET("/facts", { params: { query }, ...options }));
    });
  }
}

/** Turns of conversations. */
export class Turns {
  readonly #http: Client<paths>;

  constructor(http: Client<paths>) {
    this.#http = http;
  }

  /** Store what somebody said. Background jobs learn from it. */
  async store(turn: NewTurn, options: TextOptions = {}): Promise<Turn> {
    return dataOf(this.#http.POST("/turns", { body: turn, ...writing(options, trimming(options)) }));
  }

  /** Yield the turns of a thread, oldest first. */
  list(threadId: string, wanted: TurnsWanted = {}, options: CallOptions = {}): AsyncGenerator<ThreadTurn> {
    return pages(async (cursor) => {
      const params = { path: { thread_id: threadId }, query: { ...wanted, ...cursor } };
      return dataOf(this.#http.GET("/threads/{thread_id}/turns", { params, ...options }));
    });
  }
}

/** Return the header of changes, the answer from facts and the items of an answer, one line each. */
export function promptOf(answer: Answer): string {
  const told = answer.fact_answer?.answered ? [answer.fact_answer.text] : [];
  const items = [...answer.items, ...answer.related].map((item) => item.text);
  return [...(answer.header ? [answer.header] : []), ...told, ...items].join("\n");
}

async function* pages<T>(
  read: (cursor: { cursor?: string }) => Promise<{ items: T[]; next_cursor?: string | null }>,
): AsyncGenerator<T> {
  let cursor: { cursor?: string } = {};
  for (;;) {
    const page = await read(cursor);
    yield* page.items;
    if (!page.next_cursor) return;
    cursor = { cursor: page.next_cursor };
  }
}

function writing<P extends object>({ idempotencyKey, signal }: WriteOptions, params: P) {
  const header = { "Idempotency-Key": idempotencyKey ?? crypto.randomUUID() };
  return { params: { ...params, header }, ...(signal === undefined ? {} : { signal }) };
}

function trimming({ trim }: TextOptions): { query?: { trim: boolean } } {
  return trim === undefined ? {} : { query: { trim } };
}

function whereText(where: Where | undefined): { where?: string } {
  return where === undefined ? {} : { where: JSON.stringify(where) };
}

async function dataOf<T>(call: Promise<{ data?: T; response: Response }>): Promise<T> {
  try {
    const { data, response } = await call;
    if (data !== undefined) return data;
    throw new MnemaError("the answer is empty", { code: "unexpected_answer", status: response.status });
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new MnemaError("the answer is not JSON", { code: "unexpected_answer", cause });
  }
}

/** Fill the places of a path. URLs lose the segments `.` and `..`, however they are escaped, so no name may be one. */
function writePath(path: string, values: Record<string, unknown>): string {
  for (const [name, value] of Object.entries(values)) {
    if (/^\.{0,2}$/.test(String(value))) {
      throw new MnemaError(`${name} cannot be '${String(value)}'`, { code: "cannot_be_sent" });
    }
  }
  return defaultPathSerializer(path, values);
}

function variable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name];
}
