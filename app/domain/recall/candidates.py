"""The input of ranking: one memory with its search scores."""

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Candidate(NamedTuple):
    """A memory that may answer a query, with everything its score depends on.

    A named tuple, because one query creates about a hundred.

    - `asks`: the text ends in a question; `orders`: begins with a standing order; `assistant`: the assistant said it.
    - `similarity`: cosine to the query; None without vectors.
    - `lexical`: ts_rank; None without a match.
    - `strength`: of its strongest relation to a memory that the caller may see; None without one.
    - `tokens`: its packed token vectors, for late interaction.
    - `embedding`: unit vector, and `text_hash`: `text_rules.text_key` of its text; both only if the search wants them.
    - `rerank`: a cross-encoder's logit; None if the reranker did not read it.
    - `late`: the match of its words to those of the query; None if it was not computed.
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
    assistant: bool = False
    orders: bool = False
    similarity: float | None = None
    lexical: float | None = None
    strength: float | None = None
    tokens: bytes | None = None
    embedding: "NDArray[np.float32] | None" = None
    rerank: float | None = None
    text_hash: bytes | None = None
    late: float | None = None
