import assert from "node:assert/strict";
import { test } from "node:test";

import { type ChangeEvent, MnemaError } from "mnema-client";

import { newUser, realMemory } from "./server.js";

/** Return the next `count` changes. */
async function take(changes: AsyncGenerator<ChangeEvent>, count: number): Promise<ChangeEvent[]> {
  const taken: ChangeEvent[] = [];
  for await (const change of changes) {
    taken.push(change);
    if (taken.length === count) break;
  }
  return taken;
}

async function writeMany(user_id: string, count: number): Promise<string[]> {
  const memory = realMemory();
  const ids: string[] = [];
  for (let number = 0; number < count; number += 1) {
    const about = { user_id, category: "tasks", type: "episodic" as const };
    ids.push(String((await memory.remember(`Task ${number} of ${user_id} is done.`, about)).id));
  }
  return ids;
}

test("changes are told with their memory, also those from before the call", async () => {
  const user_id = newUser();
  const ids = await writeMany(user_id, 2);
  const changes = realMemory().changes({ user_id, after: "start", memory: true });
  const told = await take(changes, 2);
  assert.deepEqual(told.map((change) => [change.event, change.memory_id]), ids.map((id) => ["ADD", id]));
  assert.match(told[0]?.memory?.text ?? "", /^Task 0/);
});

test("a stream goes on from a cursor, and only with what the filter wants", async () => {
  const user_id = newUser();
  const [, second] = await writeMany(user_id, 2);
  const [first] = await take(realMemory().changes({ user_id, after: "start" }), 1);
  const where = { category: { eq: "tasks" } };
  const wanted = { user_id, where, ...(first === undefined ? {} : { after: first.id }) };
  const [told] = await take(realMemory().changes(wanted), 1);
  assert.equal(told?.memory_id, second);
});

test("a stream that breaks after any piece loses nothing and repeats nothing", async () => {
  const user_id = newUser();
  const ids = await writeMany(user_id, 3);
  let opened = 0;
  const breaking: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    opened += 1;
    return opened > 4 ? response : new Response(broken(response.body, 150 * opened), response);
  };
  const changes = realMemory({ fetch: breaking }).changes({ user_id, after: "start" });
  const told = await take(changes, 3);
  assert.deepEqual(told.map((change) => change.memory_id), ids);
  assert.ok(opened > 1);
});

/** Return a body that breaks after `size` bytes, sent a few at a time. */
function broken(body: ReadableStream<Uint8Array> | null, size: number): ReadableStream<Uint8Array> {
  assert.ok(body);
  const reader = body.getReader();
  let sent = 0;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value } = await reader.read();
      const rest = value?.subarray(0, size - sent) ?? new Uint8Array();
      for (let start = 0; start < rest.length; start += 7) controller.enqueue(rest.slice(start, start + 7));
      sent += rest.length;
      if (sent < size) return;
      await reader.cancel();
      controller.error(new TypeError("terminated"));
    },
  });
}

test("lines that end with CR LF, comments and split characters are read", async () => {
  const data = JSON.stringify({ id: "2", event: "ADD", memory_id: "grün", version: 1 });
  const text = `: hello\r\nid: 1\r\nevent: heartbeat\r\ndata: {"id": "1"}\r\n\r\nid: 2\r\nevent: ADD\r\ndata: ${data}\r\n\r\n`;
  const bytes = new TextEncoder().encode(text);
  const served: typeof fetch = async () => {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      },
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  };
  const [told] = await take(realMemory({ fetch: served }).changes(), 1);
  assert.equal(told?.memory_id, "grün");
});

test("an error that the stream tells is thrown", async () => {
  const problem = { title: "x", status: 410, code: "cursor_of_other_database", detail: "list again", request_id: "r" };
  const served: typeof fetch = async () => new Response(`event: error\ndata: ${JSON.stringify(problem)}\n\n`);
  const changes = realMemory({ fetch: served }).changes();
  await assert.rejects(changes.next(), (error: MnemaError) => error.status === 410 && error.code === problem.code);
});

test("a refused cursor is thrown, and the caller's signal ends the stream", async () => {
  const unreadable = realMemory().changes({ after: "nonsense" });
  await assert.rejects(unreadable.next(), (error: MnemaError) => error.status === 422);
  const stop = new AbortController();
  const waiting = realMemory().changes({ user_id: newUser() }, { signal: stop.signal }).next();
  const reason = new Error("enough");
  setTimeout(() => stop.abort(reason), 50);
  await assert.rejects(waiting, reason);
});
