"""The made-up tenants of `mnema bench scale`: who has which memory, its vector, and the true best of a query.

The large tenant has one user of 40,000, one of 5,000 and one of 1,000 memories, as far as they fit in half of its rows.
All its other users have 200. Half of the memories are notes, half are turns of threads of 20. The vectors have the
structure of the local model's: about 20 directions matter (turns embedded by all-MiniLM-L6-v2 have 16 dimensions by
TwoNN).
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.storage.identity import new_id

DIMENSION: Final = 384
LATENT, NOISE = 20, 0.15
USERS: Final = {"large": 40_000, "middle": 5_000, "small": 1_000}
OTHER_USER: Final = 200
THREAD: Final = 20
CHUNK: Final = 10_000
RARE: Final = 1000
"""One memory in this many is an insight with the run, tag, kind, role, language and expiry that others lack."""
SCARCE: Final = 100
"""One memory in this many has the tag «scarce»."""


def make_basis() -> NDArray[np.float64]:
    """Return the directions that matter."""
    return np.random.default_rng(1).standard_normal((LATENT, DIMENSION))


def make_vectors(rng: np.random.Generator, basis: NDArray[np.float64], count: int) -> NDArray[np.float32]:
    """Return `count` unit vectors."""
    vectors = rng.standard_normal((count, LATENT)) @ basis
    vectors += NOISE * np.sqrt(LATENT) * rng.standard_normal((count, DIMENSION))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def text_vector(basis: NDArray[np.float64], text: str) -> NDArray[np.float32]:
    """Return the unit vector of a text, always the same one."""
    seed = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    vector: NDArray[np.float32] = make_vectors(np.random.default_rng(seed), basis, 1)[0]
    return vector


def large_users(rows: int) -> list[tuple[str, int]]:
    """Return the users of the large tenant, with their numbers of memories."""
    found: list[tuple[str, int]] = []
    left = rows
    for user, size in USERS.items():
        if rows - left + size <= rows // 2:
            found.append((user, size))
            left -= size
    return [*found, *_equal_users(left, OTHER_USER)]


def small_users(rows: int) -> list[tuple[str, int]]:
    """Return the users of another tenant, with their numbers of memories."""
    return _equal_users(rows, 100)


def _equal_users(rows: int, size: int) -> list[tuple[str, int]]:
    whole, rest = divmod(rows, size)
    return [(f"other-{n}", size) for n in range(whole)] + ([(f"other-{whole}", rest)] if rest else [])


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a memory: its user, its number among those of the user, and ids of the user's memories before."""

    user: str
    number: int
    before: tuple[UUID, ...]

    @property
    def thread_id(self) -> str | None:
        """The thread of a turn; None of a note."""
        return f"{self.user}/{self.number // (2 * THREAD)}" if self.number % 2 else None

    @property
    def seq(self) -> int | None:
        """The place of a turn in its thread; None of a note."""
        return self.number % (2 * THREAD) // 2 + 1 if self.number % 2 else None


class Tenant:
    """The memories of a tenant. Those of a user lie scattered over all rows, as if all users wrote at once.

    `seed` makes its vectors differ from those of other tenants, `first` the texts.
    """

    def __init__(self, tenant: UUID, users: Sequence[tuple[str, int]], *, seed: int = 0, first: int = 0) -> None:
        self.id = tenant
        self.users = [user for user, _size in users]
        self.first = first
        self._seed = seed
        sizes = [size for _user, size in users]
        rng = np.random.default_rng((seed, 1))
        self.owners = rng.permutation(np.repeat(np.arange(len(users)), sizes))
        self.ids = [new_id() for _ in self.owners]
        self._order = np.argsort(self.owners, kind="stable")
        self._rank = np.empty(len(self.ids), np.int64)
        self._rank[self._order] = np.arange(len(self.ids))
        self._starts = np.concatenate(([0], np.cumsum(sizes)))

    def __len__(self) -> int:
        """Return the number of memories."""
        return len(self.ids)

    def place_of(self, row: int, edges: int) -> Place:
        """Return the place of a memory, with up to `edges` memories before."""
        owner, rank = int(self.owners[row]), int(self._rank[row])
        number = rank - int(self._starts[owner])
        before = tuple(self.ids[int(self._order[rank - n])] for n in range(1, min(edges, number) + 1))
        return Place(self.users[owner], number, before)

    def rows_of(self, user: str) -> NDArray[np.int64]:
        """Return the rows of a user."""
        owner = self.users.index(user)
        rows: NDArray[np.int64] = self._order[self._starts[owner] : self._starts[owner + 1]]
        return rows

    def chunks(self, basis: NDArray[np.float64]) -> Iterator[tuple[range, NDArray[np.float32]]]:
        """Yield all rows in pieces, with their vectors."""
        for start in range(0, len(self.ids), CHUNK):
            rows = range(start, min(start + CHUNK, len(self.ids)))
            yield rows, make_vectors(np.random.default_rng((self._seed, start)), basis, len(rows))

    def similarities(self, basis: NDArray[np.float64], queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of each query with each memory."""
        return np.concatenate([queries @ vectors.T for _rows, vectors in self.chunks(basis)], axis=1)
