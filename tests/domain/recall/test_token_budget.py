"""Token budgets."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.recall.token_budget import TokenBudget, line_tokens


@pytest.mark.parametrize(
    ("text", "wordpieces", "cost"),
    [("", 0, 1), ("abc", 1, 1), ("abcd", 1, 2), ("abcd", 9, 9), ("é" * 4, 0, 3), ("🍷", 1, 2), ("x" * 279, 70, 70)],
)
def test_line_cost(text: str, wordpieces: int, cost: int) -> None:
    assert line_tokens(text, wordpieces) == cost


@given(st.lists(st.text()), st.integers(0, 50))
def test_lines_never_cost_less_than_their_bytes(lines: list[str], wordpieces: int) -> None:
    block = "".join(line + "\n" for line in lines)
    total = sum(line_tokens(line, wordpieces) for line in lines)
    assert total >= math.ceil(len(block.encode("utf-8", "surrogatepass")) / 4)
    assert total >= wordpieces * len(lines)


@given(st.integers(0, 1000), st.lists(st.integers(0, 300)))
def test_never_overdrawn_and_all_or_nothing(total: int, costs: list[int]) -> None:
    budget = TokenBudget(total)
    spent = 0
    for cost in costs:
        before = budget.tokens_left
        taken = budget.try_spend(cost)
        assert taken == (cost <= before)
        spent += cost if taken else 0
        assert budget.tokens_left == before - (cost if taken else 0)
    assert spent + budget.tokens_left == budget.total == total
    assert budget.tokens_left >= 0


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        TokenBudget(-1)
    with pytest.raises(ValueError, match="negative"):
        TokenBudget(1).try_spend(-1)
