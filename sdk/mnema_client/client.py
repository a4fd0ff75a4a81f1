"""The clients. Every method is a call of `mnema_client.calls`, sent by a synchronous or an asynchronous sender."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from mnema_wire.memory import NewMemory

from mnema_client import (
    calls,
    chats,
    citations,
    consent,
    projects,
    turn_calls,
    turn_extraction,
)
from mnema_client import facts as fact_calls
from mnema_client.administration import AdministrationMethods
from mnema_client.bulk import BulkResult, split_batches
from mnema_client.changes import AsyncChangeMethods, ChangeMethods, SyncChangeMethods
from mnema_client.errors import BrokenOff
from mnema_client.methods import EventsMethod, Method, PagesMethod
from mnema_client.requests import Moment
from mnema_client.sources import AsyncSourceMethods, SourceMethods, SyncSourceMethods
from mnema_client.transport import Retry, build_connection


class MemoryMethods(AdministrationMethods, SourceMethods, ChangeMethods):
    """The methods that both clients have: `Mnema` returns what `AsyncMnema` awaits."""

    remember = Method(calls.remember)
    add_turn = Method(calls.add_turn)
    query = Method(calls.query)
    recall = Method(calls.recall)
    search = Method(citations.search)
    get = Method(calls.get)
    page = Method(calls.page)
    list = PagesMethod(calls.page)
    edit = Method(calls.edit)
    delete = Method(calls.delete)
    purge = Method(calls.purge)
    restore = Method(calls.restore)
    retract = Method(calls.retract)
    supersede = Method(calls.supersede)
    correct = Method(calls.correct)
    forget = Method(calls.forget)
    pin = Method(calls.pin)
    history = PagesMethod(calls.history)
    delta = Method(calls.delta)
    thread_turns = PagesMethod(citations.thread_turns)
    erase = Method(calls.erase)
    store_facts = Method(fact_calls.store_facts)
    facts = PagesMethod(fact_calls.facts)
    fact = Method(fact_calls.fact)
    fact_at = Method(fact_calls.fact_at)
    set_fact = Method(fact_calls.set_fact)
    delete_fact = Method(fact_calls.delete_fact)
    answer_fact = Method(fact_calls.answer_fact)
    fact_history = PagesMethod(fact_calls.fact_history)
    store_fact = Method(projects.store_fact)
    get_facts = Method(projects.get_facts)
    get_fact_by_rank = Method(projects.get_fact_by_rank)
    index_chat_message = Method(projects.index_chat_message)
    chat_search = Method(chats.chat_search)
    chat_add = Method(chats.chat_add)
    conversation = Method(chats.conversation)
    delete_conversation = Method(chats.delete_conversation)
    put_turn = Method(turn_calls.put_turn)
    get_turn = Method(turn_calls.get_turn)
    delete_turn = Method(turn_calls.delete_turn)
    put_fingerprint = Method(turn_calls.put_fingerprint)
    artifact_page = Method(turn_calls.artifact_page)
    conversation_artifacts = PagesMethod(turn_calls.artifact_page)
    active_set = Method(turn_calls.active_set)
    select_memories = Method(turn_calls.select_memories)
    assistant_signals = Method(turn_calls.assistant_signals)
    buckets = Method(turn_calls.buckets)
    context_view = Method(turn_calls.context_view)
    turn_feedback = Method(turn_calls.turn_feedback)
    gate_feedback = Method(turn_calls.gate_feedback)
    reconcile_turn = Method(turn_extraction.reconcile_turn)
    stream_reconcile = EventsMethod(turn_extraction.stream_reconcile)
    summarize_turn = Method(turn_extraction.summarize_turn)
    stream_summary = EventsMethod(turn_extraction.stream_summary)
    propose = Method(consent.propose)
    proposals = PagesMethod(consent.proposals)
    approve = Method(consent.approve)
    reject = Method(consent.reject)
    ask_consent = Method(consent.ask_consent)
    context = Method(consent.context)
    withdraw = Method(consent.withdraw)
    event_counts = Method(calls.event_counts)
    jobs = PagesMethod(calls.jobs)
    job = Method(calls.job)
    job_counts = Method(calls.job_counts)
    health = Method(calls.health)
    ready = Method(calls.ready)


class Mnema(MemoryMethods, SyncSourceMethods, SyncChangeMethods):
    """The synchronous client. Threads may share one; `with Mnema(...) as memory:` closes it.

    `base_url`, `api_key`: by default MNEMA_URL and MNEMA_API_KEY. `timeout_s`: the limit for connecting, and for each
    wait for data. `retry`: after no connection, 429, 502, 503 and 504. A retried write is done once, by its
    Idempotency-Key. `erase` is retried only if the server surely did nothing. Methods raise MnemaError.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(build_connection(base_url, api_key, timeout_s=timeout_s, retry=retry))

    def remember_many(
        self, memories: Iterable[NewMemory | Mapping[str, Any]], *, trim: bool = False
    ) -> Iterator[BulkResult]:
        """Write any number of memories, a thousand a request. Yield one result each, in order, as they come.

        An invalid memory gives a result with an `error` and does not affect the others. Nothing is sent until you read
        the results. After BrokenOff, the rest may be stored or not: give each an `idempotency_key` to send it again.
        """
        for batch in split_batches(memories, trim=trim):
            broken: BrokenOff | None = None
            while batch.begin_attempt(broken):
                try:
                    for document in self._sender.stream_documents(batch.call):
                        if result := batch.read_result(document):
                            yield result
                except BrokenOff as error:
                    broken = error

    def export(
        self,
        user_id: str,
        *,
        as_of: Moment | None = None,
        valid_at: Moment | None = None,
        where: Mapping[str, Any] | str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield all records of a user as they come; each has its `kind`. BrokenOff: the export is incomplete.

        With `as_of`, `valid_at` or `where`: only the memories that match, as they were at that time.
        """
        return self._sender.stream_documents(calls.export(user_id, as_of=as_of, valid_at=valid_at, where=where))

    def is_available(self) -> bool:
        """Tell whether the server answers GET /health. Never raise and never retry."""
        try:
            self.send(projects.health_once())
        except Exception:
            return False
        return True


class AsyncMnema(MemoryMethods, AsyncSourceMethods, AsyncChangeMethods):
    """The client for asyncio: `async with AsyncMnema(...) as memory:`. Its iterators are asynchronous."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(build_connection(base_url, api_key, timeout_s=timeout_s, retry=retry))

    async def remember_many(
        self, memories: Iterable[NewMemory | Mapping[str, Any]], *, trim: bool = False
    ) -> AsyncIterator[BulkResult]:
        """Write any number of memories, a thousand a request, as `Mnema.remember_many` does."""
        for batch in split_batches(memories, trim=trim):
            broken: BrokenOff | None = None
            while batch.begin_attempt(broken):
                try:
                    async for document in self._sender.stream_documents(batch.call):
                        if result := batch.read_result(document):
                            yield result
                except BrokenOff as error:
                    broken = error

    def export(
        self,
        user_id: str,
        *,
        as_of: Moment | None = None,
        valid_at: Moment | None = None,
        where: Mapping[str, Any] | str | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield all records of a user as they come; each has its `kind`. BrokenOff: the export is incomplete.

        With `as_of`, `valid_at` or `where`: only the memories that match, as they were at that time.
        """
        return self._sender.stream_documents(calls.export(user_id, as_of=as_of, valid_at=valid_at, where=where))

    async def is_available(self) -> bool:
        """Tell whether the server answers GET /health. Never raise and never retry."""
        try:
            await self.send(projects.health_once())
        except Exception:
            return False
        return True
