import type { components } from "./schema.js";

/** The server's description of a refusal (RFC 9457). */
export type Problem = components["schemas"]["Problem"];

export interface ErrorFields {
  code: string;
  status?: number | undefined;
  requestId?: string | undefined;
  retryAfter?: number | undefined;
  problem?: Problem | undefined;
  cause?: unknown;
}

/**
 * Any failure between this program and Mnema.
 *
 * Codes without a status: `no_answer` (nothing came back: a write may be stored or not), `timed_out` (the same, after
 * the time-out), `broken_off` (an answer ended too early), `unexpected_answer` (not from Mnema) and `cannot_be_sent`.
 */
export class MnemaError extends Error {
  override readonly name = "MnemaError";
  /** Stable name of the failure, such as `category_not_allowed`. */
  readonly code: string;
  /** The HTTP status; undefined if there was no response. */
  readonly status: number | undefined;
  /** Id of the request. Quote it when you report a fault. */
  readonly requestId: string | undefined;
  /** Seconds to wait before the next try; undefined if the server names none. */
  readonly retryAfter: number | undefined;
  /** The server's whole description; undefined if the refusal is not the server's. */
  readonly problem: Problem | undefined;

  constructor(detail: string, fields: ErrorFields) {
    super(`${fields.code}: ${detail}`, { cause: fields.cause });
    this.code = fields.code;
    this.status = fields.status;
    this.requestId = fields.requestId;
    this.retryAfter = fields.retryAfter;
    this.problem = fields.problem;
  }
}

/** Return the error of a refusal. */
export async function errorOf(response: Response): Promise<MnemaError> {
  const problem = await readProblem(response);
  if (problem !== undefined) return errorOfProblem(problem, retryAfterOf(response));
  const fields = {
    status: response.status,
    requestId: response.headers.get("X-Request-ID") ?? undefined,
    retryAfter: retryAfterOf(response),
  };
  const busy = response.status === 429 || (response.status >= 502 && response.status <= 504);
  return new MnemaError(
    busy ? response.statusText : `${response.status} ${response.statusText}: the answer is not from Mnema`,
    { code: busy ? "unavailable" : "unexpected_answer", ...fields },
  );
}

/** Return the error that a problem document describes. */
export function errorOfProblem(problem: Problem, retryAfter?: number): MnemaError {
  return new MnemaError(problem.detail, {
    code: problem.code,
    status: problem.status,
    requestId: problem.request_id,
    retryAfter: retryAfter ?? problem.retry_after ?? undefined,
    problem,
  });
}

async function readProblem(response: Response): Promise<Problem | undefined> {
  try {
    const body = (await response.json()) as Partial<Problem> | null;
    const isProblem = typeof body?.code === "string" && typeof body.detail === "string";
    return isProblem ? ({ ...body, status: response.status } as Problem) : undefined;
  } catch {
    return undefined;
  }
}

function retryAfterOf(response: Response): number | undefined {
  const header = response.headers.get("Retry-After") ?? "";
  return /^\d{1,9}$/.test(header) ? Number(header) : undefined;
}
