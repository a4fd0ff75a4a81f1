import assert from "node:assert/strict";
import { test } from "node:test";

import { Mnema, MnemaError, promptOf } from "mnema-client";

import { newUser, realMemory } from "./server.js";

const TEXT = "Maya deploys to staging every Thursday.";

test("a remembered sentence is recalled", async () => {
  const memory = realMemory();
  const user_id = newUser();
  const written = await memory.remember(TEXT, { user_id, category: "tasks" });
  assert.equal(written.action, "created");
  const known = await memory.recall("When do we deploy?", { user_id, agent: "planner" });
  assert.match(known, /Maya deploys to staging every Thursday/);
});

test("a query returns the memory, and its prompt begins with the header of the thread", async () => {
  const memory = realMemory();
  const user_id = newUser();
  const written = await memory.write({ text: TEXT, user_id, category: "tasks", thread_id: "launch" });
  const asked = { query: "When do we deploy?", agent: "planner", filters: { user_id }, thread_id: "launch" };
  const answer = await memory.query(asked);
  assert.equal(answer.items[0]?.id, written.id);
  const [first] = promptOf(answer).split("\n");
  assert.match(first ?? "", /^Memory updates since rev 0:/);
});

test("a write with the key of another write is done once", async () => {
  const memory = realMemory();
  const user_id = newUser();
  const once = { idempotencyKey: newUser() };
  const first = await memory.remember(TEXT, { user_id, category: "tasks", type: "episodic" }, once);
  const second = await memory.remember(TEXT, { user_id, category: "tasks", type: "episodic" }, once);
  assert.equal(second.id, first.id);
  const { data } = await memory.http.GET("/memory", { params: { query: { user_id } } });
  assert.equal(data?.items.length, 1);
});

test("turns are stored and listed in order, over several pages", async () => {
  const memory = realMemory();
  const user_id = newUser();
  const said = ["Hello.", "Good morning.", "Is the venue booked?"];
  for (const content of said) {
    await memory.turns.store({ user_id, thread_id: "a/b ü", role: "user", content });
  }
  const listed: string[] = [];
  for await (const turn of memory.turns.list("a/b ü", { user_id, limit: 2 })) listed.push(turn.content);
  assert.deepEqual(listed, said);
});

test("facts are stored, answered and listed", async () => {
  const memory = realMemory();
  const user_id = newUser();
  const stored = await memory.facts.store({ user_id, text: "My favorite colors are blue, green and black." });
  assert.equal(stored.memory_actions.S, 3);
  const reply = await memory.facts.answer({ user_id, query: "What's my second favorite color?" });
  assert.equal(reply.text, "Your second favorite color is green.");
  const values: string[] = [];
  for await (const fact of memory.facts.list({ user_id, limit: 2 })) values.push(fact.value);
  assert.deepEqual(values, ["blue", "green", "black"]);
  const where = { value: { eq: "green" } };
  await assert.rejects(async () => {
    for await (const fact of memory.facts.list({ user_id, where })) values.push(fact.value);
  }, isRefusal(422, "invalid_request"));
});

function isRefusal(status: number, code: string) {
  return (error: unknown) => {
    assert.ok(error instanceof MnemaError, String(error));
    assert.equal(error.status, status);
    assert.equal(error.code, code);
    assert.ok(error.requestId);
    assert.equal(error.problem?.code, code);
    return true;
  };
}

test("refusals are errors with code, status and id, in every route", async () => {
  const memory = realMemory();
  const user_id = newUser();
  const wrong = memory.remember(TEXT, { user_id, category: "nosuch" });
  await assert.rejects(wrong, isRefusal(422, "unknown_category"));
  const params = { path: { memory_id: "00000000-0000-4000-8000-000000000000" } };
  await assert.rejects(memory.http.GET("/memory/{memory_id}", { params }), isRefusal(404, "not_found"));
  const url = process.env.MNEMA_URL ?? "";
  const stranger = new Mnema({ url, key: "mnema_wrong" });
  await assert.rejects(stranger.recall("?", { user_id, agent: "planner" }), isRefusal(401, "unauthenticated"));
});

test("a name that would leave its path is not sent", async () => {
  let sent = 0;
  const memory = realMemory({ fetch: async () => Response.json({ sent: (sent += 1) }) });
  for (const name of [".", "..", ""]) {
    const listing = memory.turns.list(name, { user_id: "maya" });
    await assert.rejects(listing.next(), (error: MnemaError) => error.code === "cannot_be_sent");
  }
  assert.equal(sent, 0);
});

test("an unusable address or key is refused at once", () => {
  assert.throws(() => new Mnema({ url: "ftp://127.0.0.1", key: "k" }), TypeError);
  assert.throws(() => new Mnema({ url: "http://127.0.0.1", key: "two words" }), TypeError);
});
