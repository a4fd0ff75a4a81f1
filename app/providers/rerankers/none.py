"""The absence of a reranker: ranking uses vectors and words alone."""

from collections.abc import Sequence

from app.ports import refuse_inside_transaction


class NullReranker:
    """A Reranker that gives every text the same score."""

    reads_texts = False

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return zeros."""
        refuse_inside_transaction("reranker")
        return [0.0] * len(texts)

    async def check_health(self) -> None:
        """Return: there is nothing to fail."""

    async def close(self) -> None:
        """Return: there is nothing to release."""
