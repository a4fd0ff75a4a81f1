"""Bulk writes: many memories in one request, embedded in batches, with one result for each line, in order."""

import asyncio
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


class LineCrashed(MnemaError):
    """The server has a defect and could not write this line; send it again with an idempotency key."""

    code = "internal_error"


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


class BulkWrite:
    """The bulk use-case. Each line is written or refused on its own; a bad line does not affect the others."""

    def __init__(self, write: WriteMemories, limits: Limits) -> None:
        self._write = write
        self._limits = limits

    async def write_lines(
        self, principal: Principal, lines: Iterable[BulkLine], *, trim: bool = False
    ) -> AsyncIterator[BulkResult]:
        """Yield one result for each of `lines`, in their order, batch by batch."""
        batch: list[BulkLine] = []
        try:
            for line in lines:
                batch.append(await self._check_line(principal, line, trim))
                await asyncio.sleep(0)  # reading a line may take a while; let other requests run
                if len(batch) == BATCH:
                    full, batch = batch, []
                    for result in await self._write_batch(principal, full):
                        yield result
        except BaseException:  # the client disconnected
            for line in batch:
                if not isinstance(line.draft, MnemaError):
                    self._limits.give_back(principal)
            raise
        for result in await self._write_batch(principal, batch):
            yield result

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

    async def _write_batch(self, principal: Principal, batch: Sequence[BulkLine]) -> list[BulkResult]:
        valid = [(line, line.draft) for line in batch if not isinstance(line.draft, MnemaError)]
        results = {
            line.number: BulkResult(line.number, line.draft) for line in batch if isinstance(line.draft, MnemaError)
        }
        for result in await self._store_lines(principal, valid):
            results[result.number] = result
            if isinstance(result.outcome, MnemaError):
                self._limits.give_back(principal)
        return [results[line.number] for line in batch]

    async def _store_lines(self, principal: Principal, valid: Sequence[tuple[BulkLine, NewMemory]]) -> list[BulkResult]:
        if not valid:
            return []
        try:
            embeddings = await self._write.embed_drafts(principal, [draft for _line, draft in valid])
        except Exception as error:
            refusal = line_error(error)
            return [BulkResult(line.number, refusal) for line, _draft in valid]
        lanes: dict[str, list[_EmbeddedLine]] = {}
        for (line, draft), embedding in zip(valid, embeddings, strict=True):
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
