"""Requests to change stored favorites: add, remove, change and swap."""

import re
from typing import Final

from app.domain import english
from app.domain.facts.clauses import Clause, Statement
from app.domain.facts.fact import FactOperation
from app.domain.facts.fillers import strip_fillers
from app.domain.facts.moves import read_bare_move, read_move
from app.domain.facts.phrases import to_rank
from app.domain.facts.values import cut_value, cut_values, read_value, split_values

_EN: Final = english.patterns("facts", "requests")

_MAX_LIKED: Final = 300


def read_request(clause: Clause) -> Statement | None:
    """Return what a request with a mention of favorites asks for, or None if the clause is none."""
    own = clause.own
    if moved := read_move(clause):
        return moved
    swaps = len(clause.mention.ranks) == 2 and _EN.swap_word.fullmatch(own) is not None
    if not swaps and (change := _EN.change.fullmatch(own)):
        return _read_change(clause, change["rank"])
    if _EN.add_these.fullmatch(own) and (colon := _EN.colon.match(clause.after)):
        text, rest = cut_values(clause.after[colon.end() :])
        values = split_values(text)
        return clause.state("append", [(None, value) for value in values], used=len(clause.after) - len(rest))
    if not clause.ends:
        return None
    if clause.mention.owner == "a":
        return _read_lack(clause)
    if clause.mention.owner != "my":
        return None
    if swaps:
        return clause.state("swap", ranks=clause.mention.ranks)
    if (swap := _EN.swap.fullmatch(own)) and swap["of"]:
        return clause.state("swap", ranks=(to_rank(swap["one"]), to_rank(swap["other"])))
    if _EN.remove.fullmatch(own):
        return clause.state("remove", ranks=clause.mention.ranks) if clause.mention.count is None else None
    if removal := _EN.remove_from.fullmatch(own):
        return _read_removal(clause, removal["value"])
    if len(own) < _MAX_LIKED and (liked := _EN.liked.fullmatch(own)):
        values = split_values(liked["value"])
        return clause.state("append", [(None, value) for value in values]) if values else None
    if addition := _EN.add.fullmatch(own):
        values = (
            []
            if _EN.elsewhere.search(addition["value"]) or _EN.ends_in_place.search(addition["value"])
            else split_values(addition["value"])
        )
        return clause.state("append", [(None, value) for value in values]) if values else None
    made = None if clause.mention.plural else _EN.make.fullmatch(own)
    if made and (value := read_value(made["value"] or made["made"])):
        return _put_value(clause, clause.mention.ranks, value, 0)
    return None


def read_bare_request(text: str) -> FactOperation | None:
    """Return what a whole sentence without a topic asks for: "Swap first and second." or "Remove #2."."""
    if len(text) > 200 or not _EN.bare.search(text):
        return None
    opened = strip_fillers(text.rstrip(" .!"))
    rest = re.sub(r",? (?:please|thanks|thank you)$", "", opened.rest.rstrip(" ?" if opened.asks else " "))
    if (swap := _EN.swap.fullmatch(rest)) and not swap["of"]:
        return FactOperation("swap", None, ranks=(to_rank(swap["one"]), to_rank(swap["other"])))
    if removal := _EN.remove_rank.fullmatch(rest):
        return FactOperation("remove", None, ranks=(to_rank(removal["rank"]),))
    return read_bare_move(rest)


def _read_change(clause: Clause, place: str | None) -> Statement | None:
    """Read "change my second favorite color to teal"."""
    to = _EN.to.match(clause.after)
    if not to or clause.mention.owner != "my" or (clause.mention.plural and not place and not clause.mention.ranks):
        return None
    text, rest = cut_value(clause.after[to.end() :])
    value = read_value(text)
    ranks = (to_rank(place),) if place else clause.mention.ranks
    return _put_value(clause, ranks, value, len(clause.after) - len(rest)) if value else None


def _put_value(clause: Clause, ranks: tuple[int, ...], value: str, used: int) -> Statement:
    """Return the statement that puts a value at a rank, or states it without one."""
    if ranks:
        return clause.state("put", [(ranks[0], value)], used=used)
    return clause.state("set", [(None, value)], used=used)


def _read_lack(clause: Clause) -> Statement | None:
    """Read "I no longer have a favorite color"."""
    match = _EN.not_have.fullmatch(clause.own)
    if not match or not (match["gone"] or _EN.anymore.match(clause.after)) or clause.mention.ranks:
        return None
    return clause.state("remove")


def _read_removal(clause: Clause, words: str) -> Statement | None:
    """Read "remove green from my favorite colors" and "remove #2 from my favorite colors"."""
    if place := _EN.rank_alone.fullmatch(words):
        return clause.state("remove", ranks=(to_rank(place["rank"]),))
    values = split_values(words)
    return clause.state("remove", [(None, value) for value in values]) if values else None
