import {
  BaseStore,
  type GetOperation,
  type Item,
  type ListNamespacesOperation,
  type Operation,
  type OperationResults,
  type PutOperation,
  type SearchItem,
  type SearchOperation,
} from "@langchain/langgraph-checkpoint";

import { Mnema, type MnemaOptions } from "./client.js";
import type { components } from "./schema.js";

type Schemas = components["schemas"];

export interface MnemaStoreOptions extends MnemaOptions {
  /** A client to use; by default the store makes one of the other options. */
  memory?: Mnema;
  /** Paths of texts that searches find by meaning, such as `["text"]`; the server embeds them. By default none. */
  index?: { fields: string[] };
  /** Minutes after its last read or write when an item expires; by default never. */
  ttlMinutes?: number;
  /**
   * The user with whom an item is exported and erased, from its namespace: `(namespace) => namespace[1]`. Without it,
   * an item belongs to every user whose id is a label of its namespace, or its key.
   */
  userOf?: (namespace: string[]) => string | undefined;
}

/**
 * LangGraph's long-term store on a Mnema server: `graph.compile({ store: new MnemaStore() })`.
 *
 * A batch is one request and one transaction: all reads come first, then all writes. Results without a query are sorted
 * by their last change, newest first. The key must not be bound to agents.
 */
export class MnemaStore extends BaseStore {
  readonly #memory: Mnema;
  readonly #options: MnemaStoreOptions;

  constructor(options: MnemaStoreOptions = {}) {
    super();
    this.#memory = options.memory ?? new Mnema(options);
    this.#options = options;
  }

  /** Run operations in one transaction; return one result each, in order. */
  async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    if (operations.length === 0) return [] as unknown as OperationResults<Op>;
    const answer = await this.#memory.storeBatch({
      gets: operations.filter(isGet).map(({ namespace, key }) => ({ namespace, key })),
      searches: operations.filter(isSearch).map((operation) => this.#searchOf(operation)),
      lists: operations.filter(isList).map(listOf),
      puts: operations.filter(isPut).map((operation) => this.#putOf(operation)),
    });
    const gets = answer.gets.values();
    const searches = answer.searches.values();
    const lists = answer.lists.values();
    const results = operations.map((operation) => {
      if (isPut(operation)) return undefined;
      if (isGet(operation)) return itemOf(gets.next().value ?? null);
      if (isSearch(operation)) return (searches.next().value ?? []).map(foundOf);
      return lists.next().value ?? [];
    });
    return results as OperationResults<Op>;
  }

  #searchOf(operation: SearchOperation): Schemas["SearchIn"] {
    const { filter, limit, offset } = operation;
    return {
      prefix: operation.namespacePrefix,
      ...(filter === undefined ? {} : { filter }),
      ...(limit === undefined ? {} : { limit }),
      ...(offset === undefined ? {} : { offset }),
      ...(this.#options.index && operation.query ? { query: operation.query } : {}),
    };
  }

  #putOf(operation: PutOperation): Schemas["PutIn"] {
    const { index, ttlMinutes, userOf } = this.#options;
    const user = userOf?.(operation.namespace);
    const paths = operation.index === false ? [] : (operation.index ?? index?.fields ?? []);
    return {
      namespace: operation.namespace,
      key: operation.key,
      value: operation.value,
      index: index === undefined ? [] : paths,
      ...(ttlMinutes === undefined ? {} : { ttl_minutes: ttlMinutes }),
      ...(user === undefined ? {} : { user_id: user }),
    };
  }
}

function isPut(operation: Operation): operation is PutOperation {
  return "value" in operation;
}

function isGet(operation: Operation): operation is GetOperation {
  return "key" in operation && !("value" in operation);
}

function isSearch(operation: Operation): operation is SearchOperation {
  return "namespacePrefix" in operation;
}

function isList(operation: Operation): operation is ListNamespacesOperation {
  return !("key" in operation) && !("namespacePrefix" in operation);
}

function listOf(operation: ListNamespacesOperation): Schemas["NamespaceListIn"] {
  const { matchConditions = [], maxDepth, limit, offset } = operation;
  return {
    conditions: matchConditions.map(({ matchType, path }) => ({ where: matchType, path })),
    ...(maxDepth === undefined ? {} : { max_depth: maxDepth }),
    limit,
    offset,
  };
}

function itemOf(stored: Schemas["StoreItemOut"] | null): Item | null {
  if (stored === null) return null;
  const { namespace, key, value } = stored;
  return { namespace, key, value, createdAt: new Date(stored.created_at), updatedAt: new Date(stored.updated_at) };
}

function foundOf(stored: Schemas["FoundItemOut"]): SearchItem {
  const item = itemOf(stored) as Item;
  return stored.score === null ? item : { ...item, score: stored.score };
}
