// The questions that every driver for Node asks, and the report that it prints.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

export const ask = JSON.parse(readFileSync(new URL("questions.json", import.meta.url), "utf8"));
export const PICTURE = `data:image/png;base64,${ask.pixel}`;
export const tool = { type: "function", function: ask.tool };
export const shape = { type: "json_schema", json_schema: { name: "place", schema: ask.schema, strict: true } };

/** Return a package of the folder in which the driver runs. */
export const packageOf = createRequire(`${process.cwd()}/`);

/** Return a system message, a short history and the question. */
export function conversation(text) {
  const history = ask.history.map(([role, content]) => ({ role, content }));
  return [{ role: "system", content: ask.system }, ...history, { role: "user", content: text }];
}

/** Return a question with a picture. */
export function lookAt(text, url) {
  return [{ role: "user", content: [{ type: "text", text }, { type: "image_url", image_url: { url } }] }];
}

/** Print the answers as JSON. */
export function report(answers) {
  console.log(JSON.stringify(answers, null, 1));
}
