"""Bulk writes: many memories in one request, embedded in batches, with one result for each line, in order."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import structlog

from app.domain.errors import MnemaError
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import NewMemory
from app.domain.principal import Principal
from app.ports import Embedding
from app.usecases.memory.merge import WriteResult
from app.usecases.memory.write import WriteMemories
from app.usecases.tenancy.limits import Limits

log = structlog.get_logger(__name__)
BATCH = 256
LANES = 4


class LineCrashed(MnemaError, code="internal_error"):
    """The server has a defect and could not write this line; send it again with an idempotency key."""


@dataclass(frozen=True, slots=True)
class BulkLine:
    """One input line: its number (from 1) and its memory, or the error that refuses it."""

    number: int
    draft: NewMemory | MnemaError
    key: IdempotencyKey | None = None


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The result of one line: what was written, or the error that refuses it."""

    number: int
    outcome: WriteResult | MnemaError


_EmbeddedLine: TypeAlias = tuple[BulkLine, NewMemory, Embedding]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Lines that are stored together, those of them that are valid, and the embeddings of these as they come."""

    lines: Sequence[BulkLine]
    valid: Sequence[tuple[BulkLine, NewMemory]]
    embeddings: asyncio.Task[list[Embedding]]


class BulkWrite:
    """The bulk use-case. Each line is written or refused on its own; a bad line does not affect the others."""

    def __init__(self, write: WriteMemories, limits: Limits) -> None:
        self._write = write
        self._limits = limits

    async def write_lines(
        self, principal: Principal, lines: Iterable[BulkLine], *, trim: bool = False
    ) -> AsyncIterator[BulkResult]:
        """Yield one result for each of `lines`, in their order. A batch is embedded while the one before is stored."""
        lines_read: list[BulkLine] = []
        waiting: deque[_Batch] = deque()
        try:
            for line in lines:
                lines_read.append(await self._check_line(principal, line, trim))
                await asyncio.sleep(0)  # reading a line may take a while; let other requests run
                if len(lines_read) < BATCH:
                    continue
                waiting.append(self._embed_batch(principal, lines_read))
                lines_read = []
                if len(waiting) > 1:
                    for result in await self._store_batch(principal, waiting.popleft()):
                        yield result
            waiting.append(self._embed_batch(principal, lines_read))
            lines_read = []
            while waiting:
                for result in await self._store_batch(principal, waiting.popleft()):
                    yield result
        except BaseException:  # the client disconnected
            for batch in waiting:
                batch.embeddings.cancel()
            await asyncio.gather(*(batch.embeddings for batch in waiting), return_exceptions=True)
            unstored = [line for batch in waiting for line in batch.lines] + lines_read
            for line in unstored:
                if not isinstance(line.draft, MnemaError):
                    self._limits.give_back(principal)
            raise

    async def _check_line(self, principal: Principal, line: BulkLine, trim: bool) -> BulkLine:
        """Check a line at once, so that a text that is too long is not kept in memory until its batch is full.

        Count a valid line against the quota and refuse one that exceeds it.
        """
        if isinstance(line.draft, MnemaError):
            return line
        try:
            checked = replace(line, draft=self._write.check_draft(principal, line.draft, trim))
            await self._limits.take_quota(principal)
            return checked
        except Exception as error:
            return replace(line, draft=line_error(error))

    def _embed_batch(self, principal: Principal, lines: Sequence[BulkLine]) -> _Batch:
        """Begin to embed the valid lines of a batch."""
        valid = [(line, line.draft) for line in lines if not isinstance(line.draft, MnemaError)]
        drafts = [draft for _line, draft in valid]
        return _Batch(lines, valid, asyncio.create_task(self._embed_drafts(principal, drafts)))

    async def _embed_drafts(self, principal: Principal, drafts: Sequence[NewMemory]) -> list[Embedding]:
        return await self._write.embed_drafts(principal, drafts) if drafts else []

    async def _store_batch(self, principal: Principal, batch: _Batch) -> list[BulkResult]:
        results = {
            line.number: BulkResult(line.number, line.draft)
            for line in batch.lines
            if isinstance(line.draft, MnemaError)
        }
        for result in await self._store_lines(principal, batch):
            results[result.number] = result
            if isinstance(result.outcome, MnemaError):
                self._limits.give_back(principal)
        return [results[line.number] for line in batch.lines]

    async def _store_lines(self, principal: Principal, batch: _Batch) -> list[BulkResult]:
        try:
            embeddings = await batch.embeddings
        except Exception as error:
            refusal = line_error(error)
            return [BulkResult(line.number, refusal) for line, _draft in batch.valid]
        lanes: dict[str, list[_EmbeddedLine]] = {}
        for (line, draft), embedding in zip(batch.valid, embeddings, strict=True):
            lanes.setdefault(draft.user_id, []).append((line, draft, embedding))
        gate = asyncio.Semaphore(LANES)
        lane_results = await asyncio.gather(*(self._store_user_lines(principal, lane, gate) for lane in lanes.values()))
        return [result for results in lane_results for result in results]

    async def _store_user_lines(
        self, principal: Principal, lane: Sequence[_EmbeddedLine], gate: asyncio.Semaphore
    ) -> list[BulkResult]:
        """Store one user's lines in order. Each line is compared with the ones before it.

        Lines that are far from each other are stored in one transaction.
        """
        results = []
        async with gate:
            for run in self._write.independent_batches(
                [draft for _line, draft, _v in lane], [embedding for *_, embedding in lane]
            ):
                lines = [lane[at] for at in run]
                items = [(draft, embedding, line.key) for line, draft, embedding in lines]
                for (line, *_), outcome in zip(lines, await self._write.store_many(principal, items), strict=True):
                    answer = line_error(outcome) if isinstance(outcome, Exception) else outcome
                    results.append(BulkResult(line.number, answer))
        return results


def line_error(error: Exception) -> MnemaError:
    """Return the error that a line answers. Log an unexpected one; it fails only its own lines."""
    if isinstance(error, MnemaError):
        return error
    log.exception("bulk_line_crashed", exc_info=error)
    return LineCrashed()
