"""Batches of texts for a model on this machine: how texts are split into them, and how those of several calls join."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from threading import Lock
from typing import TYPE_CHECKING
from uuid import UUID

from app.ports import Embedding

if TYPE_CHECKING:
    from tokenizers import Encoding

MAX_BATCH = 32
MAX_BATCH_TOKENS = 512
"""The most padded tokens of a batch.

Measured on one core with 64 texts of 256 tokens: 512 took 2.5 s and 166 MiB in all, 8,192 took 4.4 s and 451 MiB, which
the runtime then keeps.
"""
MOST_PADDING = 1.25
"""The most padded tokens of joined batches, as a multiple of their tokens.

Measured on one core with texts of 27 tokens: a text took 3.1 ms alone, 2.2 ms in a batch of four and 2.0 ms in one of
eight. More padding would cost as much as a batch saves.
"""


def plan_batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield indices of texts of similar length, at most MAX_BATCH texts and MAX_BATCH_TOKENS padded tokens a batch."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        # Ascending, so this text's length is the padded length of the batch it joins.
        if batch and (len(batch) == MAX_BATCH or (len(batch) + 1) * lengths[index] > MAX_BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


@dataclass(frozen=True, eq=False, slots=True)
class WaitingBatch:
    """A batch of one call that waits for a thread, the future of its embeddings, and the tenant that wants them."""

    texts: Sequence[str]
    encoded: "Sequence[Encoding]"
    done: asyncio.Future[list[Embedding]]
    tenant: UUID | None = None

    def deliver(self, outcome: list[Embedding] | Exception) -> None:
        """Set the embeddings or the error, on the event loop. A call that was cancelled gets nothing."""
        if self.done.done():
            return
        if isinstance(outcome, Exception):
            self.done.set_exception(outcome)
        else:
            self.done.set_result(outcome)


class WaitingBatches:
    """The batches of all calls that wait for a thread. Tenants take turns. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[UUID | None, dict[WaitingBatch, None]] = {}

    def add(self, batch: WaitingBatch) -> None:
        """Append a batch to those of its tenant."""
        with self._lock:
            self._waiting.setdefault(batch.tenant, {})[batch] = None

    def discard(self, batch: WaitingBatch) -> None:
        """Take a batch out, if it still waits."""
        with self._lock:
            self._remove(batch)

    def take_some(self) -> list[WaitingBatch]:
        """Take out the first batch and those of the next that it can be computed with. Return [] if none waits."""
        taken: list[WaitingBatch] = []
        count = tokens = longest = 0
        with self._lock:
            for batch in islice(self._in_turn(), MAX_BATCH):
                lengths = [len(encoding.ids) for encoding in batch.encoded]
                joined = count + len(lengths), tokens + sum(lengths), max(longest, *lengths)
                padded = joined[0] * joined[2]
                fits = joined[0] <= MAX_BATCH and padded <= min(MAX_BATCH_TOKENS, MOST_PADDING * joined[1])
                if not taken or fits:
                    taken.append(batch)
                    count, tokens, longest = joined
            for batch in taken:
                self._remove(batch)
            if taken and (rest := self._waiting.pop(taken[0].tenant, None)):
                self._waiting[taken[0].tenant] = rest  # behind the others
        return taken

    def _in_turn(self) -> Iterator[WaitingBatch]:
        """Yield the first batch of each tenant, then the second ones."""
        turns = zip_longest(*self._waiting.values())
        return (batch for turn in turns for batch in turn if batch is not None)

    def _remove(self, batch: WaitingBatch) -> None:
        own = self._waiting.get(batch.tenant, {})
        own.pop(batch, None)
        if not own:
            self._waiting.pop(batch.tenant, None)
