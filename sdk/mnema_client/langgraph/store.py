"""LangGraph's long-term store on a Mnema server: `graph.compile(store=MnemaStore())`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
from mnema_wire.store import BatchOut, StoreItemOut

from mnema_client.calls import JSON, model_reader
from mnema_client.client import AsyncMnema, Mnema
from mnema_client.errors import CannotBeSent
from mnema_client.requests import encode_json
from mnema_client.transport import Call, Retry

UserOf = Callable[[tuple[str, ...]], str | None]


class MnemaStore(BaseStore):
    """A store of values by namespace and key, for sync and async graphs.

    Each batch is one request and one transaction: all reads come first, then all writes. Results without a query are
    sorted by their last change, newest first. Errors are MnemaError; InvalidRequest is also a ValueError.

    `index`: `{"fields": [...]}` as in LangGraph, to search by meaning. The server embeds, so `dims` and `embed` are
    refused. `ttl`: as in LangGraph; expired items are never returned, and the server deletes them.
    `user_of`: returns an item's user from its namespace (`lambda namespace: namespace[1]`). The item is exported and
    erased with that user. Without it, an item belongs to every user whose id is a label of its namespace, or its key.
    """

    __slots__ = ("_async", "_fields", "_sync", "_user_of", "ttl_config")
    supports_ttl = True

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        user_of: UserOf | None = None,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        if index is not None and index.keys() - {"fields"}:
            raise CannotBeSent("index may contain only 'fields': the server chooses the embedding model")
        self._fields: Sequence[str] = () if index is None else index.get("fields") or ["$"]
        self._user_of = user_of
        self.ttl_config = ttl
        self._sync = Mnema(base_url, api_key, timeout_s=timeout_s, retry=retry)
        self._async = AsyncMnema(base_url, api_key, timeout_s=timeout_s, retry=retry)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run LangGraph's operations in one transaction; return one result each, in order."""
        operations = list(ops)
        return _read_results(operations, self._sync.send(self._batch_call(operations))) if operations else []

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations as `batch` does."""
        operations = list(ops)
        return _read_results(operations, await self._async.send(self._batch_call(operations))) if operations else []

    def close(self) -> None:
        """Close the connections of the sync methods."""
        self._sync.close()

    async def aclose(self) -> None:
        """Close all connections."""
        self._sync.close()
        await self._async.close()

    def _batch_call(self, ops: Sequence[Op]) -> Call[BatchOut]:
        body: dict[str, list[dict[str, Any]]] = {"gets": [], "searches": [], "lists": [], "puts": []}
        for op in ops:
            validate_op_namespace(op)
            if isinstance(op, GetOp):
                body["gets"].append(op._asdict())
            elif isinstance(op, SearchOp):
                body["searches"].append(self._search_body(op))
            elif isinstance(op, ListNamespacesOp):
                body["lists"].append(_list_body(op))
            elif isinstance(op, PutOp):
                body["puts"].append(self._put_body(op))
            else:
                raise ValueError(f"Unknown operation type: {type(op)}")  # noqa: TRY004 - as LangGraph's stores do
        content = encode_json(body)
        # a retry of a put stores the same value again
        return Call("POST", "/store/batch", model_reader(BatchOut), content=content, headers=JSON)

    def _search_body(self, op: SearchOp) -> dict[str, Any]:
        query = op.query if self._fields else None
        fields = {name: value for name, value in op._asdict().items() if name not in ("namespace_prefix", "query")}
        return {**fields, "prefix": op.namespace_prefix, "query": query or None}

    def _put_body(self, op: PutOp) -> dict[str, Any]:
        indexed = self._fields if op.index is None else op.index or ()
        return {
            "namespace": op.namespace,
            "key": op.key,
            "value": None if op.value is None else dict(op.value),
            "index": list(indexed) if self._fields else [],
            "ttl_minutes": op.ttl,
            "user_id": self._user_of(op.namespace) if self._user_of else None,
        }


def _list_body(op: ListNamespacesOp) -> dict[str, Any]:
    conditions = [{"where": c.match_type, "path": c.path} for c in op.match_conditions or ()]
    return {"conditions": conditions, "max_depth": op.max_depth, "limit": op.limit, "offset": op.offset}


def _read_results(ops: Sequence[Op], answer: BatchOut) -> list[Result]:
    gets = iter(answer.gets)
    searches = iter(answer.searches)
    lists = iter(answer.lists)
    results: list[Result] = []
    for op in ops:
        if isinstance(op, GetOp):
            item = next(gets)
            results.append(None if item is None else Item(**_item_fields(item)))
        elif isinstance(op, SearchOp):
            results.append([SearchItem(**_item_fields(hit), score=hit.score) for hit in next(searches)])
        elif isinstance(op, ListNamespacesOp):
            results.append([tuple(namespace) for namespace in next(lists)])
        else:
            results.append(None)
    return results


def _item_fields(item: StoreItemOut) -> dict[str, Any]:
    return {**item.model_dump(include={"key", "value", "created_at", "updated_at"}), "namespace": tuple(item.namespace)}
