// Calls with the types that openapi-typescript generated. Arguments: base URL, API key.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { argv: string[] };
const [url, key] = process.argv.slice(2);
const text = "Maya deploys the planner service to staging every Thursday.";
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });

function check(condition: unknown, told: unknown): asserts condition {
  if (!condition) throw new Error(JSON.stringify(told));
}

const written = await client.POST("/memory", { body: { user_id: "maya", category: "tasks", text } });
check(written.data?.id, written.error);
const params = { path: { memory_id: written.data.id } };
const before = await client.GET("/memory/{memory_id}", { params });
check(before.data, before.error);
const changed = await client.PATCH("/memory/{memory_id}", { params, body: { importance: 5 } });
check(changed.data, changed.error);
check(changed.data.importance === 5 && changed.data.text === text, changed.data);
check(changed.data.version === before.data.version + 1, changed.data);
const page = await client.GET("/memory", { params: { query: { user_id: "maya", limit: 10 } } });
check(page.data?.items.length === 1, page.data ?? page.error);
const asked = { agent: "planner", query: "When is the deployment?", filters: { user_id: "maya" } };
const answer = await client.POST("/memory/query", { body: asked });
check(answer.data?.items[0]?.id === written.data.id, answer.data ?? answer.error);
await client.DELETE("/memory/{memory_id}", { params });
const refused = await client.PATCH("/memory/{memory_id}", { params, body: { importance: 4 } });
check(refused.error?.code === "invalid_state" && refused.response.status === 409, refused.error);
