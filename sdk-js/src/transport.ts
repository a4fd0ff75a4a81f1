import { errorOf, MnemaError } from "./errors.js";

/** The rule for retries. Waits double from 0.2 s to 10 s, and half of each is random. */
export interface Retry {
  /** Milliseconds from the first try in which a busy server (429, 502, 503, 504) is asked again; by default 30,000. */
  busyMs?: number;
  /** Milliseconds in which a server that cannot be reached is tried again; by default 2,000. */
  unreachableMs?: number;
}

export interface Transport {
  fetch: typeof globalThis.fetch;
  timeoutMs: number;
  retry: Required<Retry>;
}

export type Send = (request: Request) => Promise<Response>;

const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 10_000;
const BUSY = new Set([429, 502, 503, 504]);
/** The server refuses with 429 before it does anything, so any call can be sent again. */
const NOT_DONE = 429;
const READS = new Set(["GET", "HEAD"]);

/**
 * Return a function that sends a request until it is answered, and throws a MnemaError for each refusal.
 *
 * A call is sent again if that has the effect of one: a read, a PUT without If-Match, a write with an Idempotency-Key, or any call if
 * `repeatable`. `streamed`: the time-out ends with the head of the answer.
 */
export function createSend(transport: Transport, options: { repeatable?: boolean; streamed?: boolean } = {}): Send {
  return async (request) => {
    const { headers, method } = request;
    // a repeated PUT with If-Match would find the version that it made, and report a conflict
    const sameAgain = READS.has(method) || (method === "PUT" && !headers.has("If-Match"));
    const repeatable = options.repeatable === true || sameAgain || headers.has("Idempotency-Key");
    const began = Date.now();
    for (let attempt = 1; ; attempt += 1) {
      const failure = await attemptOnce(transport, request.clone(), options.streamed === true);
      if (failure instanceof Response) return failure;
      const patienceMs = failure.status === undefined ? transport.retry.unreachableMs : transport.retry.busyMs;
      const again = failure.status === NOT_DONE || (repeatable && isPassing(failure));
      const waitMs = waitBefore(attempt, failure.retryAfter);
      if (!again || waitMs === undefined || Date.now() - began + waitMs > patienceMs) throw failure;
      await sleep(waitMs, request.signal);
    }
  };
}

/** Wait, unless the signal is aborted: then throw its reason. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
  });
}

function isPassing(failure: MnemaError): boolean {
  return failure.status === undefined ? failure.code === "no_answer" : BUSY.has(failure.status);
}

function waitBefore(attempt: number, retryAfter: number | undefined): number | undefined {
  const askedMs = (retryAfter ?? 0) * 1000;
  if (askedMs > LONGEST_WAIT_MS) return undefined;
  const grownMs = Math.min(FIRST_WAIT_MS * 2 ** Math.min(attempt - 1, 10), LONGEST_WAIT_MS);
  return Math.max(grownMs * (0.5 + Math.random() / 2), askedMs);
}

/** Send a request once. Return the response or the error; throw only the reason of the caller's own signal. */
async function attemptOnce(transport: Transport, request: Request, streamed: boolean): Promise<Response | MnemaError> {
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), transport.timeoutMs);
  const where = `${request.method} ${new URL(request.url).pathname}`;
  try {
    const signal = AbortSignal.any([request.signal, timeout.signal]);
    const response = await transport.fetch(request, { signal, redirect: "manual" });
    if (!response.ok) return await errorOf(response);
    return streamed ? response : await readWhole(response);
  } catch (cause) {
    request.signal.throwIfAborted();
    if (timeout.signal.aborted) {
      return new MnemaError(`${where}: no answer in ${transport.timeoutMs} ms`, { code: "timed_out", cause });
    }
    return new MnemaError(`${where}: ${explain(cause, request.url)}`, { code: "no_answer", cause });
  } finally {
    clearTimeout(timer);
  }
}

/** Read the body within the time-out. Return a response that has it. */
async function readWhole(response: Response): Promise<Response> {
  const bodiless = response.status === 204 || response.body === null;
  const body = bodiless ? null : await response.arrayBuffer();
  return new Response(body, { status: response.status, statusText: response.statusText, headers: response.headers });
}

function explain(cause: unknown, url: string): string {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const told = inner instanceof Error ? inner.message || String((inner as { code?: unknown }).code ?? "") : String(inner);
  return `${told || "failed"}; is a server running at ${new URL(url).origin}?`;
}
