"""Late interaction as a Reranker: what the ranking does by itself with the words that are stored beside each vector."""

from collections.abc import Sequence

from app.domain.outages import EmbedderUnavailable, RerankerUnavailable
from app.domain.recall.late_interaction import max_sim
from app.ports import Embedder, refuse_inside_transaction


class LateInteractionReranker:
    """Scores are cosines. Of an embedder that tells no words whole texts are compared, as the ranking has it too."""

    reads_texts = False

    def __init__(self, embedder: Embedder) -> None:
        """The embedder stays its owner's to close."""
        self._embedder = embedder
        self._closed = False

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """One cosine a text, in order. Raises RerankerUnavailable, or RuntimeError inside a transaction."""
        refuse_inside_transaction("reranker")
        if self._closed:
            raise RerankerUnavailable
        if not texts:
            return []
        try:
            asked, read = await self._embedder.encode_query(query), await self._embedder.encode_texts(texts)
        except EmbedderUnavailable as error:
            raise RerankerUnavailable(error.detail) from error
        heard = max_sim(asked.tokens or b"", [text.tokens for text in read])
        return [
            float(asked.vector @ text.vector) if value is None else value
            for text, value in zip(read, heard, strict=True)
        ]

    async def check_health(self) -> None:
        """Works when the embedder does, which is asked elsewhere."""

    async def close(self) -> None:
        """Later calls raise RerankerUnavailable."""
        self._closed = True
