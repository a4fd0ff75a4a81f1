import assert from "node:assert/strict";
import { test } from "node:test";

import { Mnema, MnemaError } from "mnema-client";

import { scripted, sendJson } from "./server.js";

const BUSY = { title: "busy", status: 503, code: "server_busy", detail: "wait", request_id: "r1" };
const WRITTEN = { id: "1", action: "create" };
const MEMORY = { text: "Maya deploys on Thursdays.", user_id: "maya", category: "tasks" };

function failure(code: string) {
  return (error: unknown) => error instanceof MnemaError && error.code === code;
}

test("a busy server is asked again with the same idempotency key and body", async () => {
  const bodies: string[] = [];
  await using server = await scripted((number, request, response) => {
    let body = "";
    request.on("data", (part: Buffer) => (body += part.toString()));
    request.on("end", () => {
      bodies.push(body);
      if (number < 3) sendJson(response, 503, BUSY);
      else sendJson(response, 201, WRITTEN);
    });
  });
  const memory = new Mnema({ url: server.url, key: "k" });
  assert.equal((await memory.write(MEMORY)).id, "1");
  const keys = server.requests.map((request) => request.headers["idempotency-key"]);
  assert.equal(keys.length, 3);
  assert.equal(new Set(keys).size, 1);
  assert.match(String(keys[0]), /^[0-9a-f-]{36}$/);
  assert.deepEqual(bodies.map((body) => JSON.parse(body) as unknown), [MEMORY, MEMORY, MEMORY]);
});

test("a long Retry-After ends the call, and the error names it", async () => {
  await using server = await scripted((_number, _request, response) => {
    sendJson(response, 429, { ...BUSY, status: 429, code: "quota_exceeded" }, { "Retry-After": "3600" });
  });
  const memory = new Mnema({ url: server.url, key: "k" });
  await assert.rejects(memory.write(MEMORY), (error: MnemaError) => {
    assert.equal(error.retryAfter, 3600);
    assert.equal(error.status, 429);
    assert.equal(error.requestId, "r1");
    return true;
  });
  assert.equal(server.requests.length, 1);
});

test("a call that is not safe to repeat is sent again only if nothing was done", async () => {
  await using server = await scripted((number, _request, response) => {
    sendJson(response, number === 1 ? 429 : 503, BUSY);
  });
  const memory = new Mnema({ url: server.url, key: "k" });
  const params = { path: { user_id: "maya" } };
  await assert.rejects(memory.http.POST("/users/{user_id}/erase", { params }), failure("server_busy"));
  assert.equal(server.requests.length, 2);
});

test("a PUT is sent again unless it has If-Match", async () => {
  await using server = await scripted((_number, _request, response) => {
    sendJson(response, 503, BUSY);
  });
  const memory = new Mnema({ url: server.url, key: "k", retry: { busyMs: 300 } });
  const put = (header: { "if-match"?: string }) =>
    memory.http.PUT("/tenant/config", { params: { header }, body: {} });
  await assert.rejects(put({ "if-match": '"3"' }), failure("server_busy"));
  assert.equal(server.requests.length, 1);
  await assert.rejects(put({}), failure("server_busy"));
  assert.ok(server.requests.length > 2);
});

test("a busy server is given up after busyMs", async () => {
  await using server = await scripted((_number, _request, response) => sendJson(response, 503, BUSY));
  const memory = new Mnema({ url: server.url, key: "k", retry: { busyMs: 0 } });
  await assert.rejects(memory.write(MEMORY), failure("server_busy"));
  assert.equal(server.requests.length, 1);
});

test("a server that does not answer is a time-out, which is not sent again", async () => {
  await using server = await scripted(() => undefined);
  const memory = new Mnema({ url: server.url, key: "k", timeoutMs: 50 });
  await assert.rejects(memory.write(MEMORY), failure("timed_out"));
  assert.ok(server.requests.length <= 1);
});

test("an answer whose body does not end is a time-out", async () => {
  await using server = await scripted((_number, _request, response) => {
    response.writeHead(201, { "Content-Type": "application/json" });
    response.write("{");
  });
  const memory = new Mnema({ url: server.url, key: "k", timeoutMs: 50 });
  await assert.rejects(memory.write(MEMORY), failure("timed_out"));
});

test("a connection that breaks is tried again", async () => {
  await using server = await scripted((number, request, response) => {
    if (number === 1) request.socket.destroy();
    else sendJson(response, 201, WRITTEN);
  });
  const memory = new Mnema({ url: server.url, key: "k", retry: { unreachableMs: 60_000 } });
  assert.equal((await memory.write(MEMORY)).id, "1");
});

test("a server that is away is an error that says where it was looked for", async () => {
  const url = await addressOfNobody();
  const memory = new Mnema({ url, key: "k" });
  await assert.rejects(memory.write(MEMORY), (error: MnemaError) => {
    assert.equal(error.code, "no_answer");
    assert.ok(error.message.includes(`is a server running at ${url}?`), error.message);
    return true;
  });
});

async function addressOfNobody(): Promise<string> {
  await using server = await scripted(() => undefined);
  return server.url;
}

test("the caller's signal ends a call and its waits with the caller's reason", async () => {
  await using server = await scripted((_number, _request, response) => sendJson(response, 503, BUSY));
  const memory = new Mnema({ url: server.url, key: "k" });
  const stop = new AbortController();
  const call = memory.write(MEMORY, { signal: stop.signal });
  const reason = new Error("enough");
  setTimeout(() => stop.abort(reason), 20);
  await assert.rejects(call, reason);
});

test("a redirect is not followed with the key", async () => {
  await using other = await scripted((_number, _request, response) => sendJson(response, 201, WRITTEN));
  await using server = await scripted((_number, _request, response) => {
    response.writeHead(307, { Location: other.url });
    response.end();
  });
  const memory = new Mnema({ url: server.url, key: "k" });
  await assert.rejects(memory.write(MEMORY), failure("unexpected_answer"));
  assert.equal(other.requests.length, 0);
});

test("a page of a proxy is not taken for an answer", async () => {
  await using server = await scripted((_number, _request, response) => {
    response.writeHead(404, { "Content-Type": "text/html" });
    response.end("<h1>nothing here</h1>");
  });
  const memory = new Mnema({ url: server.url, key: "k" });
  await assert.rejects(memory.write(MEMORY), failure("unexpected_answer"));
});

test("a page with status 200 that is no JSON is not taken for an answer", async () => {
  await using server = await scripted((_number, _request, response) => {
    response.writeHead(200, { "Content-Type": "text/html" });
    response.end("<h1>Sign in</h1>");
  });
  const memory = new Mnema({ url: server.url, key: "k" });
  await assert.rejects(memory.write(MEMORY), failure("unexpected_answer"));
});
