"""A ledger of each tenant's unguessable marks and of the marks it has sent, to find leaks in responses."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import httpx

MARK = re.compile(r"zq[0-9a-f]{20}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
CURSOR = re.compile(r"WyJ[A-Za-z0-9_-]{40,}")
"""A page cursor is base64 of JSON with an id inside."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A text that identifies its owner.

    With a `name`, callers may know and send it and may then receive it; otherwise only its owner ever sends it.
    `category` is the category of its memory, if that decides who may read it.
    """

    owner: str
    where: str
    name: bool
    category: str | None


@dataclass
class Ledger:
    """The marks of every tenant, and the marks that each tenant has sent itself."""

    random: Random
    marks: dict[str, Mark] = field(default_factory=dict)
    said: dict[str, set[str]] = field(default_factory=dict)

    def mark(self, owner: str, where: str, category: str | None = None, *, name: bool = False) -> str:
        """Return a new unguessable word of this owner."""
        word = f"zq{self.random.getrandbits(80):020x}"
        self.marks[word] = Mark(owner, where, name, category)
        return word

    def own(self, owner: str, identifier: str, where: str, category: str | None = None) -> str:
        """Record an id that the server gave to this owner."""
        self.marks[identifier] = Mark(owner, where, True, category)
        return identifier

    def names(self, owner: str, where: str) -> list[str]:
        """Return the owner's names or ids of one kind."""
        return [word for word, mark in self.marks.items() if mark.owner == owner and mark.where == where]

    def sends(self, owner: str, request: httpx.Request) -> None:
        """Record a text that a caller of this owner sends."""
        text = f"{request.url.path} {dict(request.url.params)} {request.headers} {request.content.decode()}"
        self.said.setdefault(owner, set()).update(_words(text))

    def leaks(self, owner: str, response: httpx.Response, hidden: frozenset[str] = frozenset()) -> list[Mark]:
        """Return the marks that a response to this owner must not have.

        These are all marks of others, and its own marks in a `hidden` category.
        """
        text = f"{response.status_code} {response.headers} {response.text}"
        said = self.said.get(owner, set())
        found = [(word, self.marks[word]) for word in _words(text) if word in self.marks]
        return [
            mark
            for word, mark in found
            if (mark.owner != owner or mark.category in hidden) and not (mark.name and word in said)
        ]


def _words(text: str) -> Iterator[str]:
    yield from MARK.findall(text)
    for cursor in CURSOR.findall(text):
        yield from MARK.findall(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode())
