"""No reranker: vectors and words alone."""

from collections.abc import Sequence

from app.ports import refuse_inside_transaction


class NullReranker:
    """A Reranker to which all texts are alike."""

    reads_texts = False

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """Zeros."""
        refuse_inside_transaction("reranker")
        return [0.0] * len(texts)

    async def check_health(self) -> None:
        """There is nothing to fail."""

    async def close(self) -> None:
        """There is nothing to release."""
