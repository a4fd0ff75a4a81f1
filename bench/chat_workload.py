"""The workload of `mnema bench chat`: one user's memories, different messages, and answers of an endpoint.

Messages have 60 to 200 characters and no two are the same, so that no cache of embeddings helps. Everything depends on
its number alone.
"""

import random
from typing import Any, Final

from bench import workload
from bench.workload import TOP_K

USER, OTHER_USER = "maya", "noor"
CONVERSATION: Final = "trip"
AGENT: Final = "supervisor"
TURN_CATEGORY: Final = "activity"
NOTE_CATEGORIES: Final = ("goals", "tasks", "preferences")
FAVORITE_TOPIC: Final = "favorite_colors"
FAVORITE_COLORS: Final = ("teal", "amber", "coral")
LEAST_CHARS, MOST_CHARS = 60, 200
SYSTEM: Final = "You are a helpful travel assistant. Answer briefly, and ask if something is unclear."
_GREETINGS: Final = ("", "Hey, ", "Hi, ", "Hello, ", "Okay, ", "Well, ", "So, ", "Thanks, ", "Sorry, ", "Oh, ")
_QUESTIONS: Final = (
    *("what's my favorite color", "what is my second favorite color", "what's my third favorite color"),
    *("what are my favorite colors", "list my favorite colors", "tell me my favorite colors"),
)
_TAILS: Final = ("?", " again?", " please?", " right now?", " at the moment?", ", by the way?", " these days?")


def message_text(number: int) -> str:
    """Return the message with this number."""
    chance = random.Random(f"message {number}")
    return make_text(chance, chance.randint(LEAST_CHARS + 1, MOST_CHARS))


def make_text(chance: random.Random, chars: int) -> str:
    """Return a text that begins with one of the user's topics, cut to `chars` characters or one less."""
    words = workload.make_sentence(chance, chance.randrange(workload.TOPICS), chars // 4)
    return f"{words[: chars - 1].rstrip().capitalize()}."


def turn_body(number: int) -> dict[str, Any]:
    """Return the body of POST /turns for a message of another user: the memories of USER grow with chats alone."""
    return {"user_id": OTHER_USER, "thread_id": CONVERSATION, "role": "user", "content": message_text(number)}


def query_body(number: int) -> dict[str, Any]:
    """Return the body of POST /memory/query that asks a message in all categories of the user."""
    return {
        "agent": AGENT,
        "query": message_text(number),
        "categories": [*NOTE_CATEGORIES, TURN_CATEGORY],
        "filters": {"user_id": USER},
        "top_k": TOP_K,
    }


def chat_body(number: int, *, stream: bool) -> dict[str, Any]:
    """Return the body of POST /v1/chat/completions for a message."""
    return _chat_about(message_text(number), stream)


def favorite_body(number: int, *, stream: bool) -> dict[str, Any]:
    """Return the body of a chat about the user's favorites, which stored facts answer."""
    chance = random.Random(f"favorite {number}")
    words = (chance.choice(parts) for parts in (_GREETINGS, _QUESTIONS, _TAILS))
    return _chat_about("".join(words), stream)


def _chat_about(text: str, stream: bool) -> dict[str, Any]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
    body = {"model": "bench-1", "user": USER, "memory_id": CONVERSATION, "messages": messages, "stream": stream}
    return body | {"temperature": 0.2}
