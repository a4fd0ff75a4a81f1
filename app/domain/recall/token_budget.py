"""Token budgets. A line fits whole or not at all."""

BYTES_PER_TOKEN = 4


def line_tokens(text: str, wordpieces: int) -> int:
    """Return the cost of one output line in tokens.

    It is the larger of `wordpieces` and a quarter of the line's UTF-8 bytes with its newline, rounded up.
    """
    size = len(text.encode("utf-8", "surrogatepass")) + 1
    return max(wordpieces, -(-size // BYTES_PER_TOKEN))


class TokenBudget:
    """A number of tokens to spend. It never falls below 0."""

    def __init__(self, total: int) -> None:
        if total < 0:
            raise ValueError("a budget cannot be negative")
        self.total = total
        self._left = total

    @property
    def tokens_left(self) -> int:
        """The tokens not spent yet."""
        return self._left

    def try_spend(self, cost: int) -> bool:
        """Spend `cost` tokens and return True. Return False and spend nothing if fewer are left."""
        if cost < 0:
            raise ValueError("a cost cannot be negative")
        if cost > self._left:
            return False
        self._left -= cost
        return True
