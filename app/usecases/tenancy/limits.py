"""Rate limits and quotas, decided from local memory: no request waits for the shared counters (`docs/limits.md`)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias
from uuid import UUID

import structlog

from app.domain.changes import Observation
from app.domain.errors import LimitReached, QuotaExceeded, RateLimited, TooManyOperations
from app.domain.outages import CountersUnavailable
from app.domain.principal import Principal
from app.domain.tenancy.limits import SECOND_US, Allowance, LimitKind, LimitPolicy, Tally, retry_after_s
from app.ports import Clock, CounterIncrement, SharedCounters
from app.storage.access_log import AccessLog

log = structlog.get_logger(__name__)
Subject: TypeAlias = Literal["key", "tenant"]
_Counted: TypeAlias = tuple[Subject, int, Tally]
"""A limit's subject, its maximum, and its tally."""
MINUTE_US = 60 * SECOND_US
NOUNS: dict[Subject, str] = {"key": "this API key", "tenant": "this tenant"}


@dataclass(frozen=True, slots=True)
class _RefusalKind:
    """The error and the event name of one kind of limit."""

    error: type[LimitReached]
    op: str


_KINDS = {
    LimitKind.requests: _RefusalKind(RateLimited, "rate_limit"),
    LimitKind.memories: _RefusalKind(QuotaExceeded, "quota"),
}


class Limits:
    """The limits by key and tenant. Each replica counts in its own memory and exchanges its counts with the others.

    A limit may be exceeded by the requests that reach the replicas between two exchanges, and by no more. While the
    shared counters are away nothing is refused; the requests of that time count once the counters are back. Without
    shared counters (`counters` None) each process enforces the limits alone. Refused requests do not count. A caller
    without a key, such as a worker, has no limit.

    `refused` (by limit and subject) and `unenforced` count since the start. `away` is True while nothing is refused.
    """

    def __init__(
        self,
        policy: LimitPolicy,
        counters: SharedCounters | None,
        name_of: Callable[[Principal], Awaitable[str | None]],
        access: AccessLog,
        clock: Clock,
    ) -> None:
        """Set up the limits. `name_of` returns a tenant's name; it is called only if the policy names tenants."""
        self._policy = policy
        self._counters = counters
        self._name_of = name_of
        self._access = access
        self._clock = clock
        self._allowances: dict[UUID, Allowance] = {}
        self._tallies: dict[tuple[LimitKind, UUID], Tally] = {}
        self._touched: set[Tally] = set()
        self._noted: dict[tuple[UUID, str, str], int] = {}
        self._pruned_us = 0
        self._exchanging = asyncio.Lock()
        self.refused: Counter[tuple[str, Subject]] = Counter()
        self.unenforced = 0
        self.away = False

    async def admit_request(self, principal: Principal) -> None:
        """Count a request; raise RateLimited if the limit is reached."""
        await self._spend_allowance(principal, LimitKind.requests)

    async def admit_batch(self, principal: Principal, operations: int) -> None:
        """Count all operations of a batch, or none. `admit_request` has counted the first one.

        Raise TooManyOperations, or RateLimited with the `retry_after` (seconds) from which the whole batch fits.
        """
        if operations > 1:
            await self._spend_allowance(principal, LimitKind.requests, operations - 1, admitted=1)

    async def take_quota(self, principal: Principal) -> None:
        """Count a memory that is about to be written; raise QuotaExceeded if the quota is used up."""
        await self._spend_allowance(principal, LimitKind.memories)

    def give_back(self, principal: Principal) -> None:
        """Subtract a memory that was counted but not written."""
        for identity in (principal.key_id, principal.tenant_id):
            if identity is not None and (tally := self._tallies.get((LimitKind.memories, identity))) is not None:
                tally.add_count(-1)
                self._touched.add(tally)

    @asynccontextmanager
    async def reserve_write(self, principal: Principal) -> AsyncIterator[None]:
        """Count a memory, and subtract it again if the block fails. Raise QuotaExceeded."""
        await self.take_quota(principal)
        try:
            yield
        except BaseException:
            self.give_back(principal)
            raise

    async def _spend_allowance(self, principal: Principal, what: LimitKind, count: int = 1, admitted: int = 0) -> None:
        """Count `count` units. `admitted` more are counted already; a retry of the caller would count them again."""
        if principal.key_id is None:
            return
        allowance = self._allowances.get(principal.tenant_id) or await self._load_allowance(principal)
        now = self._now_us()
        ceiling = allowance.ceiling_for(what)
        counted: list[_Counted] = []
        if ceiling.key is not None:
            counted.append(("key", ceiling.key, self._current_tally(what, principal.key_id, now)))
        if ceiling.tenant is not None:
            counted.append(("tenant", ceiling.tenant, self._current_tally(what, principal.tenant_id, now)))
        if not self.away:
            if admitted:
                _refuse_too_many(counted, count + admitted, what)
            if any(tally.wait_us(most, now, count) for _subject, most, tally in counted):
                self._raise_refusal(principal, what, counted, count + admitted, now)
        elif counted:
            self.unenforced += 1
            self._record_event(principal, _KINDS[what].op, "error", now)
        for _subject, _most, tally in counted:
            tally.add_count(count)

    def _current_tally(self, what: LimitKind, identity: UUID, now: int) -> Tally:
        tally = self._tallies.get((what, identity))
        if tally is None:
            tally = self._tallies[what, identity] = Tally(f"{what.name}:{identity}", what.window_us, now)
        else:
            tally.advance_window(now)
        self._touched.add(tally)
        return tally

    def _raise_refusal(
        self, principal: Principal, what: LimitKind, counted: Sequence[_Counted], count: int, now: int
    ) -> None:
        waits = [(tally.wait_us(most, now, count), most, subject) for subject, most, tally in counted]
        wait, most, subject = max(waits, key=lambda reached: reached[0])
        kind = _KINDS[what]
        seconds = retry_after_s(wait)
        detail = f"at most {most} {what.phrase} for {NOUNS[subject]}; try again in {seconds} s"
        self.refused[what.name, subject] += 1
        self._record_event(principal, kind.op, "skipped", now)
        raise kind.error(detail, retry_after=seconds)

    def _record_event(self, principal: Principal, op: str, status: Literal["error", "skipped"], now: int) -> None:
        """Record the event at most once a minute for each tenant."""
        place = (principal.tenant_id, op, status)
        minute = now // MINUTE_US
        if self._noted.get(place) == minute:
            return
        self._noted[place] = minute
        self._access.record_access(principal, (), Observation(node="hotpath", op=op, status=status))
        log.info("limit_reached" if status == "skipped" else "limit_not_enforced", op=op, key_id=str(principal.key_id))

    async def _load_allowance(self, principal: Principal) -> Allowance:
        name = await self._name_of(principal) if self._policy.has_named_tenants else None
        return self._allowances.setdefault(principal.tenant_id, self._policy.allowance_for(principal.tenant_id, name))

    def _now_us(self) -> int:
        return int(self._clock.now().timestamp() * SECOND_US)

    async def exchange_counts(self) -> None:
        """Send this replica's counts and read the others', in one round trip.

        It covers only limits that were used since the last exchange or the one before. The cost depends on the load,
        not on the number of keys.
        """
        async with self._exchanging:
            now = self._now_us()
            self._prune_tallies(now)
            if self._counters is None:
                return
            try:
                if self.away:  # a hanging server may still apply earlier counts: send none before it answers
                    await self._counters.add_and_read([])
                await self._send_counts(self._counters, now)
            except CountersUnavailable:
                self._set_away(away=True)
            else:
                self._set_away(away=False)

    async def _send_counts(self, counters: SharedCounters, now: int) -> None:
        counts, places = self._collect_counts(now)
        if not counts:
            return
        try:
            totals = await counters.add_and_read(counts)
        except CountersUnavailable:
            for (tally, index), count in zip(places, counts, strict=True):
                tally.restore_unsent(index, count.add)
                self._touched.add(tally)
            raise
        for (tally, index), total in zip(places, totals, strict=True):
            tally.merge_total(index, total)

    def _collect_counts(self, now: int) -> tuple[list[CounterIncrement], list[tuple[Tally, int]]]:
        """Return the counts to send, and the tally and window of each."""
        touched, self._touched = self._touched, set()
        counts: list[CounterIncrement] = []
        places: list[tuple[Tally, int]] = []
        for tally in touched:
            tally.advance_window(now)
            keep_s = 2 * tally.window_us // SECOND_US + 60
            if tally.untold_before or tally.unread:
                counts.append(CounterIncrement(f"{tally.name}:{tally.index - 1}", tally.untold_before, keep_s))
                places.append((tally, tally.index - 1))
                tally.unread -= tally.unread > 0
            counts.append(CounterIncrement(f"{tally.name}:{tally.index}", tally.untold, keep_s))
            places.append((tally, tally.index))
            if tally.untold:  # read it once more, when the other replicas have sent their counts
                self._touched.add(tally)
            tally.untold = tally.untold_before = 0
        return counts, places

    def _set_away(self, *, away: bool) -> None:
        if away != self.away:
            self.away = away
            log.warning("limits_not_enforced" if away else "limits_enforced_again")

    def _prune_tallies(self, now: int) -> None:
        """Drop tallies that no window covers any more; at most once a minute."""
        if now - self._pruned_us < MINUTE_US:
            return
        self._pruned_us = now
        for place, tally in list(self._tallies.items()):
            if tally.index < now // tally.window_us - 1:
                del self._tallies[place]
                self._touched.discard(tally)
        self._noted = {place: minute for place, minute in self._noted.items() if minute == now // MINUTE_US}

    async def close(self) -> None:
        """Close the connections to the shared counters."""
        if self._counters is not None:
            await self._counters.close()


def _refuse_too_many(counted: Sequence[_Counted], count: int, what: LimitKind) -> None:
    """Raise TooManyOperations if `count` is larger than a whole limit, so that no wait would help."""
    for subject, most, _tally in counted:
        if count > most:
            limit = f"{most} {what.phrase} for {NOUNS[subject]}"
            raise TooManyOperations(f"{count} operations exceed the limit of {limit}; send at most {most} at once")
