"""Batches of texts for a model on this machine: how texts are split into them, and how those of several calls join."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from threading import Lock
from typing import TYPE_CHECKING, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

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


UNIT: Final = 10
"""The weights are tenths of a token, so that their sums are exact."""
LONGEST_WORD: Final = 60
"""The most characters that are left out so that a cut text ends with a whole word."""


def _make_weights() -> NDArray[np.int64]:
    """Return the weight of each byte of UTF-8.

    Tokenizers keep common words whole and fall back to digits, characters and bytes. The weights are above what
    English, German, Russian and Chinese take with the tokenizers of current models: about 1.3 tokens an English word,
    and one and a half a Chinese character.
    """
    weights = np.full(256, UNIT, np.int64)  # digits and punctuation
    weights[[*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1)]] = 3
    weights[[ord(blank) for blank in " \t\n\r"]] = 4
    weights[128:] = 5  # a byte of another script: a letter has two or three
    return weights


_WEIGHTS: Final = _make_weights()


def estimate_text_tokens(text: str) -> int:
    """Return an estimate of the tokens of `text`, rather too high than too low."""
    return -(-int(_WEIGHTS[_to_bytes(text)].sum()) // UNIT)


def cut_to_tokens(text: str, most: int) -> str:
    """Return the beginning of `text` that has at most `most` tokens by estimate, cut at a word end if possible."""
    content = _to_bytes(text[: 4 * most + 1])  # no four characters are less than a token
    sums = np.cumsum(_WEIGHTS[content])
    if not sums.size or sums[-1] <= most * UNIT:
        return text
    end = int(np.searchsorted(sums, most * UNIT, side="right"))
    fitting = content[:end].tobytes().decode("utf-8", "ignore")
    whole_words, _, rest = fitting.rpartition(" ")
    shown = whole_words if whole_words and len(rest) <= LONGEST_WORD else fitting
    return text[: len(shown) or 1]


def _to_bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
