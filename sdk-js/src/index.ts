export * from "./client.js";
export type { ChangeEvent } from "./changes.js";
export { MnemaError, type Problem } from "./errors.js";
export type { Retry } from "./transport.js";
export type { components, operations, paths } from "./schema.js";
