"""Cues of turns that the search tells: standing orders."""

import asyncpg
import pytest

from tests.conftest import Installation

ORDERS = [
    "Always use metric units.",
    "always include version numbers when I ask about dependencies",
    "Please, never add emojis to a summary.",
    "From now on, answer in two sentences.",
    "When I ask for code, give me Python.",
    "Bitte immer mit Quellen antworten.",
    "Ab jetzt bitte auf Deutsch.",
    "A partir de ahora, respuestas cortas.",
    "Désormais, réponds en français.",
    "De agora em diante, use o sistema métrico.",
    "今後は敬語で答えてください。",
]
LOOK_ALIKES = [
    "Always wanted to see Lisbon!",
    "Never mind, I found it.",
    "Never heard of it, to be honest.",
    "My boss always says: use metric units.",
    "I always walk to work.",
    "Should I always use type hints?",
    "From now the bakery opens at seven.",
    "Immer diese Verspätungen!",
    "今日は雨です。",
]


@pytest.mark.parametrize(("texts", "told"), [(ORDERS, True), (LOOK_ALIKES, False)], ids=["orders", "look-alikes"])
async def test_a_standing_order_is_known_by_its_beginning(
    shared_installation: Installation, texts: list[str], told: bool
) -> None:
    connection = await asyncpg.connect(shared_installation.database.superuser)
    try:
        rows = await connection.fetch("SELECT t, opens_with_order(t) AS told FROM unnest($1::text[]) AS t", texts)
    finally:
        await connection.close()
    assert {row["t"]: row["told"] for row in rows} == dict.fromkeys(texts, told)
