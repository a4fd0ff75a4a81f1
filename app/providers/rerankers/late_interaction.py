"""Late interaction as a Reranker: the score that ranking computes from the word vectors stored with each memory."""

from collections.abc import Sequence

from app.domain.outages import EmbedderUnavailable, RerankerUnavailable
from app.domain.recall.late_interaction import max_sim
from app.ports import Embedder, refuse_inside_transaction


class LateInteractionReranker:
    """A Reranker that returns cosines. If the embedder gives no tokens, it compares whole texts, as ranking does."""

    reads_texts = False

    def __init__(self, embedder: Embedder) -> None:
        """Use `embedder`, which its owner closes."""
        self._embedder = embedder
        self._closed = False

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one cosine a text, in order. Raise RerankerUnavailable, or RuntimeError inside a transaction."""
        refuse_inside_transaction("reranker")
        if self._closed:
            raise RerankerUnavailable
        if not texts:
            return []
        try:
            question = await self._embedder.encode_query(query)
            encoded = await self._embedder.encode_texts(texts)
        except EmbedderUnavailable as error:
            raise RerankerUnavailable(error.detail) from error
        token_scores = max_sim(question.tokens or b"", [text.tokens for text in encoded])
        return [
            float(question.vector @ text.vector) if value is None else value
            for text, value in zip(encoded, token_scores, strict=True)
        ]

    async def check_health(self) -> None:
        """Return: it works if the embedder does, which has a check of its own."""

    async def close(self) -> None:
        """Make later calls raise RerankerUnavailable."""
        self._closed = True
