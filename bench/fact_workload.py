"""The workload of `mnema bench facts`: users with ranked lists, questions about them, and new lists.

Each user has a list of five in each of three topics, in two threads. Everything depends on its number alone, so that
the server and its floor get the same requests.
"""

import random
from typing import Any, Final
from uuid import UUID

USERS: Final = 2000
THREADS: Final = 2
RANKS: Final = 5
TOPICS: Final = ("favorite_colors", "favorite_foods", "favorite_movies")
FACTS_A_USER: Final = THREADS * len(TOPICS) * RANKS
QUESTIONS: Final = ("What's my second favorite color?", "What's my favorite food?", "What are my favorite movies?")
_WORDS: Final = (
    *("amber", "blue", "coral", "denim", "ebony", "flax", "green", "hazel", "ivory", "jade"),
    *("khaki", "lilac", "mauve", "navy", "olive", "pink", "rust", "teal"),
)


def user_name(user: int) -> str:
    """Return the id of a user."""
    return f"user-{user}"


def thread_name(user: int, thread: int) -> str:
    """Return the id of a user's thread."""
    return f"user-{user}/{thread}"


def make_values(count: int, *place: object) -> list[str]:
    """Return the values of the list at a place, all different."""
    return random.Random(f"values {place}").sample(_WORDS, count)


def question_body(number: int, users: int) -> dict[str, Any]:
    """Return the body of POST /facts/answer: a question of a random user in one of its threads."""
    chance = random.Random(f"question {number}")
    user = chance.randrange(users)
    return {
        "user_id": user_name(user),
        "thread_id": thread_name(user, chance.randrange(THREADS)),
        "query": chance.choice(QUESTIONS),
    }


def statement_body(number: int, users: int) -> dict[str, Any]:
    """Return the body of POST /facts: a message with a list of three, in a new thread of a random user."""
    chance = random.Random(f"statement {number}")
    one, two, three = make_values(3, number)
    return {
        "user_id": user_name(chance.randrange(users)),
        "thread_id": str(UUID(int=chance.getrandbits(128), version=4)),
        "text": f"My favorite colors are {one}, {two} and {three}.",
    }
