"""Token budgets: a line fits whole or not at all (seed 003 §6)."""

BYTES_PER_TOKEN = 4


def line_tokens(text: str, wordpieces: int) -> int:
    """Tokens one output line costs: the larger of its WordPiece count and a quarter of its UTF-8 bytes with newline."""
    size = len(text.encode("utf-8", "surrogatepass")) + 1
    return max(wordpieces, -(-size // BYTES_PER_TOKEN))


class TokenBudget:
    """A number of tokens to spend; never overdrawn."""

    def __init__(self, total: int) -> None:
        if total < 0:
            raise ValueError("a budget cannot be negative")
        self.total = total
        self._left = total

    @property
    def tokens_left(self) -> int:
        """Tokens not spent yet."""
        return self._left

    def try_spend(self, cost: int) -> bool:
        """Spend `cost` tokens if all of them are left; False leaves the budget as it was."""
        if cost < 0:
            raise ValueError("a cost cannot be negative")
        if cost > self._left:
            return False
        self._left -= cost
        return True
