import { errorOfProblem, MnemaError, type Problem } from "./errors.js";
import type { components } from "./schema.js";

/** A change of a memory. */
export type ChangeEvent = components["schemas"]["ChangeEvent"];

interface ServerEvent {
  name: string;
  id: string;
  data: string;
}

const LONGEST_LINE = 8_000_000;
/** The server sends a heartbeat every 15 s, so a stream that is silent for longer is broken. */
const SILENCE_MS = 45_000;

/** Yield the events of a server-sent stream. An event that the stream's end cuts off is left out. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  let event = { name: "", id: "", data: [] as string[] };
  for await (const line of readLines(body)) {
    if (line === "") {
      if (event.data.length > 0) yield { ...event, data: event.data.join("\n") };
      event = { name: "", id: event.id, data: [] };
      continue;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") event.name = value;
    else if (field === "id") event.id = value;
    else if (field === "data") event.data.push(value);
  }
}

async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parts: string[] = [];
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await readSoon(reader);
      if (done) return;
      const lines = decoder.decode(value, { stream: true }).split("\n");
      for (const [number, part] of lines.entries()) {
        parts.push(part);
        size += part.length;
        if (size > LONGEST_LINE) throw new MnemaError("a line is too long", { code: "unexpected_answer" });
        if (number === lines.length - 1) break;
        yield parts.join("").replace(/\r$/, "");
        parts = [];
        size = 0;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

async function readSoon(reader: ReadableStreamDefaultReader<Uint8Array>) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`the stream was silent for ${SILENCE_MS} ms`)), SILENCE_MS);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } finally {
    clearTimeout(timer);
  }
}

/** Return the change that an event tells, undefined for a heartbeat. Throw the error that the server tells. */
export function readChange(event: ServerEvent): ChangeEvent | undefined {
  if (event.name === "heartbeat") return undefined;
  try {
    const data = JSON.parse(event.data) as unknown;
    if (event.name !== "error") return data as ChangeEvent;
    throw errorOfProblem(data as Problem);
  } catch (cause) {
    if (cause instanceof MnemaError) throw cause;
    throw new MnemaError("an event of the stream is not JSON", { code: "unexpected_answer", cause });
  }
}
