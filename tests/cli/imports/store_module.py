"""A LangGraph store as an import finds it in the caller's code: an object, a function and a context manager."""

from collections.abc import Iterator
from contextlib import contextmanager

from langgraph.store.memory import InMemoryStore

ITEMS = 130
"""Items of the store."""


def build_store() -> InMemoryStore:
    """Return a store with memories of two users, and an item without a text."""
    store = InMemoryStore()
    for number in range(ITEMS - 3):
        user = "ana" if number % 2 else "ben"
        store.put(("memories", user), f"m{number}", {"text": f"Fact {number} of {user}.", "source": "chat"})
    store.put(("memories", "ana"), "nested", {"kind": "Memory", "content": {"content": "Ana likes tea."}})
    store.put(("memories", "ana", "counts"), "visits", {"number": 3})
    store.put(("settings",), "theme", {"text": "dark"})
    return store


shared = build_store()


@contextmanager
def opened() -> Iterator[InMemoryStore]:
    """Yield a store."""
    yield build_store()


class Broken:
    """A store that fails."""

    def list_namespaces(self, **_options: object) -> list[object]:
        """Fail as a lost connection does."""
        raise ConnectionError("gone")

    def search(self, *_prefix: object, **_options: object) -> list[object]:
        """Fail as a lost connection does."""
        raise ConnectionError("gone")


broken = Broken()
