import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import { Mnema } from "mnema-client";

/** Return a client of the real server, whose address and key the environment has. */
export function realMemory(options: { fetch?: typeof fetch } = {}): Mnema {
  return new Mnema(options);
}

/** Return the id of a user that no other test has. */
export function newUser(): string {
  return `user-${randomUUID()}`;
}

/** A server of the test's own: `answer` gets each request with its number, from 1. */
export async function scripted(
  answer: (number: number, request: IncomingMessage, response: ServerResponse) => void,
): Promise<{ url: string; requests: IncomingMessage[] } & AsyncDisposable> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    request.resume();
    answer(requests.length, request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export function sendJson(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}
