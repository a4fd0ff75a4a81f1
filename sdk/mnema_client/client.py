"""The clients. Every method is a call of `mnema_client.calls`, sent by a synchronous or an asynchronous sender."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

from mnema_wire.memory import NewMemory
from pydantic import BaseModel

from mnema_client import (
    calls,
    chats,
    citations,
    consent,
    projects,
    turn_calls,
    turn_extraction,
    turn_reactions,
)
from mnema_client import facts as fact_calls
from mnema_client.administration import AdministrationMethods, AsyncAdministrationMethods
from mnema_client.bulk import split_batches
from mnema_client.errors import BrokenOff
from mnema_client.methods import async_events, async_method, async_pages, sync_events, sync_method, sync_pages
from mnema_client.model_events import EventCall, Restart, TextDelta
from mnema_client.models import BulkResult
from mnema_client.requests import Moment
from mnema_client.source_methods import AsyncSourceMethods, SourceMethods
from mnema_client.transport import AsyncSender, Call, Retry, Sender, build_connection

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Mnema(AdministrationMethods, SourceMethods):
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
        self.connection = build_connection(base_url, api_key, timeout_s=timeout_s, retry=retry)
        self._sender = Sender(self.connection)

    remember = sync_method(calls.remember)
    add_turn = sync_method(calls.add_turn)
    query = sync_method(calls.query)
    search = sync_method(citations.search)
    get = sync_method(calls.get)
    page = sync_method(calls.page)
    list = sync_pages(calls.page)
    changes = sync_method(calls.changes)
    edit = sync_method(calls.edit)
    delete = sync_method(calls.delete)
    purge = sync_method(calls.purge)
    restore = sync_method(calls.restore)
    retract = sync_method(calls.retract)
    supersede = sync_method(calls.supersede)
    correct = sync_method(calls.correct)
    forget = sync_method(calls.forget)
    pin = sync_method(calls.pin)
    history = sync_pages(calls.history)
    delta = sync_method(calls.delta)
    thread_turns = sync_pages(citations.thread_turns)
    erase = sync_method(calls.erase)
    store_facts = sync_method(fact_calls.store_facts)
    facts = sync_pages(fact_calls.facts)
    fact = sync_method(fact_calls.fact)
    fact_at = sync_method(fact_calls.fact_at)
    set_fact = sync_method(fact_calls.set_fact)
    delete_fact = sync_method(fact_calls.delete_fact)
    answer_fact = sync_method(fact_calls.answer_fact)
    fact_history = sync_pages(fact_calls.fact_history)
    store_fact = sync_method(projects.store_fact)
    get_facts = sync_method(projects.get_facts)
    get_fact_by_rank = sync_method(projects.get_fact_by_rank)
    index_chat_message = sync_method(projects.index_chat_message)
    chat_search = sync_method(chats.chat_search)
    chat_add = sync_method(chats.chat_add)
    conversation = sync_method(chats.conversation)
    delete_conversation = sync_method(chats.delete_conversation)
    put_turn = sync_method(turn_calls.put_turn)
    get_turn = sync_method(turn_calls.get_turn)
    delete_turn = sync_method(turn_calls.delete_turn)
    put_fingerprint = sync_method(turn_calls.put_fingerprint)
    artifact_page = sync_method(turn_calls.artifact_page)
    conversation_artifacts = sync_pages(turn_calls.artifact_page)
    active_set = sync_method(turn_calls.active_set)
    select_memories = sync_method(turn_calls.select_memories)
    assistant_signals = sync_method(turn_calls.assistant_signals)
    buckets = sync_method(turn_calls.buckets)
    context_view = sync_method(turn_calls.context_view)
    turn_feedback = sync_method(turn_reactions.turn_feedback)
    gate_feedback = sync_method(turn_reactions.gate_feedback)
    reconcile_turn = sync_method(turn_extraction.reconcile_turn)
    stream_reconcile = sync_events(turn_extraction.stream_reconcile)
    summarize_turn = sync_method(turn_extraction.summarize_turn)
    stream_summary = sync_events(turn_extraction.stream_summary)
    propose = sync_method(consent.propose)
    proposals = sync_pages(consent.proposals)
    approve = sync_method(consent.approve)
    reject = sync_method(consent.reject)
    ask_consent = sync_method(consent.ask_consent)
    context = sync_method(consent.context)
    withdraw = sync_method(consent.withdraw)
    event_counts = sync_method(calls.event_counts)
    jobs = sync_pages(calls.jobs)
    job = sync_method(calls.job)
    job_counts = sync_method(calls.job_counts)
    health = sync_method(calls.health)
    ready = sync_method(calls.ready)

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
        self, user_id: str, *, as_of: Moment | None = None, valid_at: Moment | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield all records of a user as they come; each has its `kind`. BrokenOff: the export is incomplete.

        With `as_of` or `valid_at`: only the memories, as they were at that time.
        """
        return self._sender.stream_documents(calls.export(user_id, as_of=as_of, valid_at=valid_at))

    def is_available(self) -> bool:
        """Tell whether the server answers GET /health. Never raise and never retry."""
        try:
            self.send(projects.health_once())
        except Exception:
            return False
        return True

    def send(self, call: Call[T]) -> T:
        """Send any call and return its result. Raise MnemaError."""
        return self._sender.send(call)

    def stream_events(self, events: EventCall[M]) -> Iterator[TextDelta | Restart | M]:
        """Send a call whose response is a stream of events; yield them, the result last. Raise MnemaError."""
        last = None
        for document in self._sender.stream_documents(events.call):
            if (event := events.read_event(document)) is not None:
                yield (last := event)
        events.check_end(last)

    def close(self) -> None:
        """Close the connections."""
        self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Mnema({self.connection.base_url!r})"


class AsyncMnema(AsyncAdministrationMethods, AsyncSourceMethods):
    """The client for asyncio: `async with AsyncMnema(...) as memory:`. Its iterators are asynchronous."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        self.connection = build_connection(base_url, api_key, timeout_s=timeout_s, retry=retry)
        self._sender = AsyncSender(self.connection)

    remember = async_method(calls.remember)
    add_turn = async_method(calls.add_turn)
    query = async_method(calls.query)
    search = async_method(citations.search)
    get = async_method(calls.get)
    page = async_method(calls.page)
    list = async_pages(calls.page)
    changes = async_method(calls.changes)
    edit = async_method(calls.edit)
    delete = async_method(calls.delete)
    purge = async_method(calls.purge)
    restore = async_method(calls.restore)
    retract = async_method(calls.retract)
    supersede = async_method(calls.supersede)
    correct = async_method(calls.correct)
    forget = async_method(calls.forget)
    pin = async_method(calls.pin)
    history = async_pages(calls.history)
    delta = async_method(calls.delta)
    thread_turns = async_pages(citations.thread_turns)
    erase = async_method(calls.erase)
    store_facts = async_method(fact_calls.store_facts)
    facts = async_pages(fact_calls.facts)
    fact = async_method(fact_calls.fact)
    fact_at = async_method(fact_calls.fact_at)
    set_fact = async_method(fact_calls.set_fact)
    delete_fact = async_method(fact_calls.delete_fact)
    answer_fact = async_method(fact_calls.answer_fact)
    fact_history = async_pages(fact_calls.fact_history)
    store_fact = async_method(projects.store_fact)
    get_facts = async_method(projects.get_facts)
    get_fact_by_rank = async_method(projects.get_fact_by_rank)
    index_chat_message = async_method(projects.index_chat_message)
    chat_search = async_method(chats.chat_search)
    chat_add = async_method(chats.chat_add)
    conversation = async_method(chats.conversation)
    delete_conversation = async_method(chats.delete_conversation)
    put_turn = async_method(turn_calls.put_turn)
    get_turn = async_method(turn_calls.get_turn)
    delete_turn = async_method(turn_calls.delete_turn)
    put_fingerprint = async_method(turn_calls.put_fingerprint)
    artifact_page = async_method(turn_calls.artifact_page)
    conversation_artifacts = async_pages(turn_calls.artifact_page)
    active_set = async_method(turn_calls.active_set)
    select_memories = async_method(turn_calls.select_memories)
    assistant_signals = async_method(turn_calls.assistant_signals)
    buckets = async_method(turn_calls.buckets)
    context_view = async_method(turn_calls.context_view)
    turn_feedback = async_method(turn_reactions.turn_feedback)
    gate_feedback = async_method(turn_reactions.gate_feedback)
    reconcile_turn = async_method(turn_extraction.reconcile_turn)
    stream_reconcile = async_events(turn_extraction.stream_reconcile)
    summarize_turn = async_method(turn_extraction.summarize_turn)
    stream_summary = async_events(turn_extraction.stream_summary)
    propose = async_method(consent.propose)
    proposals = async_pages(consent.proposals)
    approve = async_method(consent.approve)
    reject = async_method(consent.reject)
    ask_consent = async_method(consent.ask_consent)
    context = async_method(consent.context)
    withdraw = async_method(consent.withdraw)
    event_counts = async_method(calls.event_counts)
    jobs = async_pages(calls.jobs)
    job = async_method(calls.job)
    job_counts = async_method(calls.job_counts)
    health = async_method(calls.health)
    ready = async_method(calls.ready)

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
        self, user_id: str, *, as_of: Moment | None = None, valid_at: Moment | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield all records of a user as they come; each has its `kind`. BrokenOff: the export is incomplete.

        With `as_of` or `valid_at`: only the memories, as they were at that time.
        """
        return self._sender.stream_documents(calls.export(user_id, as_of=as_of, valid_at=valid_at))

    async def is_available(self) -> bool:
        """Tell whether the server answers GET /health. Never raise and never retry."""
        try:
            await self.send(projects.health_once())
        except Exception:
            return False
        return True

    async def send(self, call: Call[T]) -> T:
        """Send any call and return its result. Raise MnemaError."""
        return await self._sender.send(call)

    async def stream_events(self, events: EventCall[M]) -> AsyncIterator[TextDelta | Restart | M]:
        """Send a call whose response is a stream of events; yield them, the result last. Raise MnemaError."""
        last = None
        async for document in self._sender.stream_documents(events.call):
            if (event := events.read_event(document)) is not None:
                yield (last := event)
        events.check_end(last)

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncMnema({self.connection.base_url!r})"
