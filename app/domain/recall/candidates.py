"""What ranking knows of a memory."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray


class Candidate(NamedTuple):
    """What of a memory that might answer counts in its score. A tuple: a query makes a hundred.

    `asks`: it ends in a question; `similarity`: cosine, None without vectors; `lexical`: ts_rank, None without a match;
    `strength`: of its strongest relation to a memory the asker may see, None without one; `tokens`: its words, for late
    interaction; `embedding`: unit vector, only for MMR; `rerank`: a cross-encoder's logit, None if it did not read it.
    """

    id: UUID
    category: str
    type: str
    importance: int
    pinned: bool
    created_at: datetime
    updated_at: datetime
    thread_id: str | None = None
    seq: int | None = None
    actor_id: str | None = None
    asks: bool = False
    similarity: float | None = None
    lexical: float | None = None
    strength: float | None = None
    tokens: bytes | None = None
    embedding: NDArray[np.float32] | None = None
    rerank: float | None = None
