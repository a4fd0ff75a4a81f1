import assert from "node:assert/strict";
import { test } from "node:test";

import {
  type BaseStore,
  InMemoryStore,
  InvalidNamespaceError,
  type Item,
  type Operation,
  type SearchItem,
} from "@langchain/langgraph-checkpoint";
import { END, type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { MnemaStore } from "mnema-client/langgraph";

import { newUser, realMemory } from "./server.js";

const VALUES = [
  { text: "The venue has room for eighty.", n: 3, tags: ["a", "b"], deep: { x: 1, y: { z: "q" } } },
  { text: "Jonas bakes rye bread.", n: 3.5, tags: ["a"], deep: { x: null } },
  { text: "Eighty chairs are rented.", n: 0, done: true, none: null, ünï: "cödé ✓" },
  { n: -1, tags: [{ k: 1 }, "b"] },
];

interface Stores {
  ours: BaseStore;
  theirs: BaseStore;
}

/** Return Mnema's store and LangGraph's own, and a root label of the test's own. */
function bothStores(): { root: string; stores: Stores } {
  return { root: newUser(), stores: { ours: new MnemaStore({ memory: realMemory() }), theirs: new InMemoryStore() } };
}

/** Return a result without times. The order of a search without a query is the store's own, so it is sorted. */
function plain(result: unknown): unknown {
  if (!Array.isArray(result)) return result ? plainItem(result as Item) : null;
  const parts = result.map((part: unknown) => JSON.stringify(Array.isArray(part) ? part : plainItem(part as Item)));
  return parts.sort();
}

function plainItem({ namespace, key, value, createdAt, updatedAt }: Item): unknown {
  assert.ok(createdAt instanceof Date && updatedAt instanceof Date && createdAt <= updatedAt);
  return [namespace, key, Object.entries(value).sort()];
}

/** Run operations on both stores, expect equal results, and return them. */
async function same({ ours, theirs }: Stores, operations: Operation[]): Promise<unknown[]> {
  const results: unknown[] = await ours.batch(operations);
  // the items that LangGraph's store returns change with its later puts, so the puts come in a second batch
  const reads = operations.filter((operation) => !("value" in operation));
  const read = ((await theirs.batch(reads)) as unknown[]).map(plain);
  await theirs.batch(operations.filter((operation) => "value" in operation));
  const expected = operations.map((operation) => ("value" in operation ? null : read.shift()));
  assert.deepEqual(results.map(plain), expected);
  return results;
}

function placesBelow(root: string): string[][] {
  return [[root], [root, "maya"], [root, "maya", "drafts"], [root, "a b"], [root, "ü", "maya"]];
}

async function furnish(stores: Stores, root: string): Promise<void> {
  const puts = placesBelow(root).flatMap((namespace) =>
    VALUES.map((value, number) => ({ namespace, key: `k${number}`, value })),
  );
  await same(stores, puts);
}

test("items are found by their keys, and a missing one is null", async () => {
  const { root, stores } = bothStores();
  await furnish(stores, root);
  for (const namespace of placesBelow(root)) {
    await same(stores, [{ namespace, key: "k1" }, { namespace, key: "never" }]);
  }
  assert.equal(await stores.ours.get([root, "nowhere"], "k"), null);
});

test("filters mean what they mean to LangGraph", async () => {
  const { root, stores } = bothStores();
  await furnish(stores, root);
  const filters: Record<string, unknown>[] = [
    {},
    { n: 3 },
    { n: { $eq: 3 } },
    { n: { $ne: 3 } },
    { n: { $gt: 3 } },
    { n: { $gte: 3, $lt: 3.5 } },
    { n: { $lte: 3 } },
    { done: true },
    { text: "Jonas bakes rye bread." },
    { n: 3, text: "The venue has room for eighty." },
    { ünï: "cödé ✓" },
  ];
  const counts = new Set<number>();
  for (const filter of filters) {
    const [found] = await same(stores, [{ namespacePrefix: [root], filter, limit: 100, offset: 0 }]);
    counts.add((found as SearchItem[]).length);
  }
  assert.ok(counts.size > 2, String([...counts]));
});

test("a filter for null matches a missing field too, as in LangGraph's stores for Python", async () => {
  const root = newUser();
  const store = new MnemaStore({ memory: realMemory() });
  await store.put([root], "null", { none: null });
  await store.put([root], "missing", {});
  await store.put([root], "other", { none: 1 });
  const found = await store.search([root], { filter: { none: null } });
  assert.deepEqual(found.map((item) => item.key).sort(), ["missing", "null"]);
});

test("a prefix holds whole labels, and pages do not overlap", async () => {
  const { root, stores } = bothStores();
  await furnish(stores, root);
  for (const namespacePrefix of [[root], [root, "maya"], [root, "may"], [root, "ü"]]) {
    await same(stores, [{ namespacePrefix, limit: 1000, offset: 0 }]);
  }
  const keys = new Set<string>();
  for (const offset of [0, 7, 14]) {
    for (const item of await stores.ours.search([root], { limit: 7, offset })) {
      keys.add([...item.namespace, item.key].join("/"));
    }
  }
  assert.equal(keys.size, 20);
});

test("namespaces are listed alike", async () => {
  const { root, stores } = bothStores();
  await furnish(stores, root);
  const below = { matchType: "prefix" as const, path: [root] };
  for (const suffix of [["maya"], ["drafts"], ["*", "maya"], ["nowhere"]]) {
    for (const depth of [undefined, 1, 2]) {
      const matchConditions = [below, { matchType: "suffix" as const, path: suffix }];
      const listing = { matchConditions, limit: 100, offset: 0 };
      await same(stores, [depth === undefined ? listing : { ...listing, maxDepth: depth }]);
    }
  }
  await same(stores, [{ matchConditions: [below], limit: 2, offset: 1 }]);
});

test("a batch reads before it writes, the last put counts, and null deletes", async () => {
  const { root, stores } = bothStores();
  const namespace = [root];
  await same(stores, [{ namespace, key: "k", value: { v: 1 } }, { namespace, key: "k", value: { v: 2 } }]);
  const [, old] = await same(stores, [{ namespace, key: "k", value: { v: 3 } }, { namespace, key: "k" }]);
  assert.deepEqual((old as Item).value, { v: 2 });
  await same(stores, [{ namespace, key: "k" }]);
  await same(stores, [{ namespace, key: "k", value: null }, { namespace, key: "never", value: null }]);
  assert.deepEqual(await same(stores, [{ namespace, key: "k" }]), [null]);
});

/** Return a function of numbers from 0 to 1, the same in each run (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

test("random batches are answered alike", async () => {
  const { root, stores } = bothStores();
  const random = seeded(7);
  const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)] as T;
  const places = [[root, "a"], [root, "a", "b"], [root, "c"]];
  for (let round = 0; round < 40; round += 1) {
    const operations = Array.from({ length: pick([1, 3, 6]) }, (): Operation => {
      const namespace = pick(places);
      const key = pick(["x", "y", "z"]);
      const kind = pick(["get", "put", "put", "delete", "search"]);
      if (kind === "get") return { namespace, key };
      if (kind === "put") return { namespace, key, value: { n: pick([0, 1, 2]), s: pick(["p", "q"]) } };
      if (kind === "delete") return { namespace, key, value: null };
      return { namespacePrefix: namespace, filter: pick([{}, { n: 1 }, { s: "p" }]), limit: 100, offset: 0 };
    });
    await same(stores, operations);
  }
});

test("searches by meaning rank the items of the index", async () => {
  const root = newUser();
  const store = new MnemaStore({ memory: realMemory(), index: { fields: ["text", "parts[*].note"] } });
  await store.put([root], "bread", { text: "Jonas bakes rye bread." });
  await store.put([root], "sky", { parts: [{ note: "A telescope on the roof." }] });
  await store.put([root], "unseen", { text: "A star map." }, false);
  const found = await store.search([root], { query: "stars and telescopes" });
  assert.deepEqual(found.map((item) => item.key), ["sky", "bread", "unseen"]);
  assert.ok((found[0]?.score ?? 0) > (found[1]?.score ?? 1));
  assert.equal(found[2]?.score, undefined);
});

test("an item is of the user whom its namespace names", async () => {
  const user = newUser();
  const memory = realMemory();
  const store = new MnemaStore({ memory, userOf: (namespace) => namespace[1], ttlMinutes: 60 });
  await store.put(["notes", user], "venue", { text: "The venue has room for eighty." });
  assert.equal((await store.get(["notes", user], "venue"))?.value.text, "The venue has room for eighty.");
  await memory.http.POST("/users/{user_id}/erase", { params: { path: { user_id: user } } });
  assert.equal(await store.get(["notes", user], "venue"), null);
});

test("what LangGraph forbids is refused before it is sent", async () => {
  const store = new MnemaStore({ memory: realMemory() });
  await assert.rejects(store.put([], "k", {}), InvalidNamespaceError);
  await assert.rejects(store.put(["a.b"], "k", {}), InvalidNamespaceError);
  await assert.rejects(store.put(["langgraph"], "k", {}), InvalidNamespaceError);
  assert.deepEqual(await store.batch([]), []);
});

test("a graph keeps what it learns in the store, for another run", async () => {
  const user = newUser();
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("learn", async (state, config: LangGraphRunnableConfig) => {
      const text = String(state.messages.at(-1)?.content);
      const known = await config.store?.search([user], { limit: 10 });
      await config.store?.put([user], `note-${known?.length}`, { text });
      return { messages: [{ role: "assistant", content: `I know ${known?.length} notes.` }] };
    })
    .addEdge(START, "learn")
    .addEdge("learn", END)
    .compile({ store: new MnemaStore({ memory: realMemory() }) });
  const said: unknown[] = [];
  for (const content of ["I like tea.", "I live in Ghent."]) {
    const state = await graph.invoke({ messages: [{ role: "user", content }] });
    said.push(state.messages.at(-1)?.content);
  }
  assert.deepEqual(said, ["I know 0 notes.", "I know 1 notes."]);
});
