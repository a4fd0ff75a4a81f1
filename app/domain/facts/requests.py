"""Requests to change stored favorites: add, remove, change and swap."""

import re
from typing import Final

from app.domain.facts.clauses import Clause, Statement
from app.domain.facts.fact import FactOperation
from app.domain.facts.fillers import strip_fillers
from app.domain.facts.moves import read_bare_move, read_move
from app.domain.facts.phrases import NUMBERED, RANK, to_rank
from app.domain.facts.values import cut_value, cut_values, read_value, split_values

_PLACE: Final = rf"(?:{RANK}|\d{{1,10}})(?: ones?| entry| place| spot)?"
_SWAP: Final = re.compile(
    rf"(?:swap|switch|exchange) (?:the )?(?P<one>{_PLACE}) (?:and|with|&) (?:the )?(?P<other>{_PLACE})"
    r"(?: places| entries)?(?P<of>(?: (?:of|in|on|from|among))?)",
    re.IGNORECASE,
)
_ENDS_IN_PLACE: Final = re.compile(rf" {RANK}$", re.IGNORECASE)
_MAX_LIKED: Final = 300
_BARE: Final = re.compile(
    r"\b(?:swap|switch|exchange|remove|delete|forget|drop|replace|substitute|move|bump|shift|push|bring|promote|demote|put"
    r"|insert|place|add|slot|squeeze|list|rank|set|stick|have)\b",
    re.IGNORECASE,
)
"""The verbs of requests without a topic."""
_SWAP_WORD: Final = re.compile(r"(?:swap|switch|exchange)(?: around)?", re.IGNORECASE)
_REMOVE_RANK: Final = re.compile(rf"(?:remove|delete|forget|drop) (?P<rank>{NUMBERED})", re.IGNORECASE)
_RANK_ALONE: Final = re.compile(rf"(?:the )?(?P<rank>{RANK})(?: (?:one|entry|item|place))?", re.IGNORECASE)
_LIKED: Final = re.compile(
    r"(?:and )?i(?:'ve| have)? (?:(?:also|really|now|just|recently|do|got to|come to) )*"
    r"(?:love|like|enjoy|adore|loved|liked|discovered|tried|found) (?P<value>[^.!?]{1,200}?)(?: (?:too|also"
    r"|as well|now))?"
    r"(?:[,;]| [-–—]| and)? (?:(?:so|and|then|please|pls|can you|could you) )*(?:add|put|include|save)"
    r" (?:it|that|this|them|those|these|that one)(?: too| also)? (?:to|in|into|on|onto)",
    re.IGNORECASE,
)
_ADD: Final = re.compile(
    r"(?:add|include|put) (?:also )?(?P<value>.+) (?:to|in|into|on|onto)(?: (?:the|my) list of)?", re.IGNORECASE
)
_REMOVE_FROM: Final = re.compile(
    r"(?:remove|delete|drop|take|forget|erase|strike|cross) (?P<value>.+?) (?:from|off|off of|out of)"
    r"(?: (?:the|my) list of)?",
    re.IGNORECASE,
)
_REMOVE: Final = re.compile(r"(?:remove|delete|drop|forget|erase|clear|wipe|reset)(?: all)?(?: of)?", re.IGNORECASE)
_CHANGE: Final = re.compile(
    rf"(?:change|update|set|switch|correct|edit|make|replace)(?: (?P<rank>{RANK}) (?:of|in|on))?", re.IGNORECASE
)
_ELSEWHERE: Final = re.compile(r" to (?:my|the|our) ", re.IGNORECASE)
_ADD_THESE: Final = re.compile(
    r"add(?: (?:this|these|the following|another one|one more))? to(?: the list of)?", re.IGNORECASE
)
_COLON: Final = re.compile(r" ?: ?")
_MAKE: Final = re.compile(
    r"(?:make (?P<made>.+)|(?:add|put|set|save|store) (?P<value>.+) as)"
    r"(?<! about)(?<! for)(?<! from)(?<! of)(?<! with)(?<! in)(?<! to)",
    re.IGNORECASE,
)
_TO: Final = re.compile(r" (?:from (?:(?! to ).){1,200} )?(?:to(?: be)?|with|by|into) (?=\S)", re.IGNORECASE)
_NOT_HAVE: Final = re.compile(r"i (?:(?P<gone>no longer) have|(?:don't|do not) (?:really )?have)", re.IGNORECASE)
_ANYMORE: Final = re.compile(r" any ?more\b", re.IGNORECASE)


def read_request(clause: Clause) -> Statement | None:
    """Return what a request with a mention of favorites asks for, or None if the clause is none."""
    own = clause.own
    if moved := read_move(clause):
        return moved
    swaps = len(clause.mention.ranks) == 2 and _SWAP_WORD.fullmatch(own) is not None
    if not swaps and (change := _CHANGE.fullmatch(own)):
        return _read_change(clause, change["rank"])
    if _ADD_THESE.fullmatch(own) and (colon := _COLON.match(clause.after)):
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
    if (swap := _SWAP.fullmatch(own)) and swap["of"]:
        return clause.state("swap", ranks=(to_rank(swap["one"]), to_rank(swap["other"])))
    if _REMOVE.fullmatch(own):
        return clause.state("remove", ranks=clause.mention.ranks) if clause.mention.count is None else None
    if removal := _REMOVE_FROM.fullmatch(own):
        return _read_removal(clause, removal["value"])
    if len(own) < _MAX_LIKED and (liked := _LIKED.fullmatch(own)):
        values = split_values(liked["value"])
        return clause.state("append", [(None, value) for value in values]) if values else None
    if addition := _ADD.fullmatch(own):
        values = (
            []
            if _ELSEWHERE.search(addition["value"]) or _ENDS_IN_PLACE.search(addition["value"])
            else split_values(addition["value"])
        )
        return clause.state("append", [(None, value) for value in values]) if values else None
    made = None if clause.mention.plural else _MAKE.fullmatch(own)
    if made and (value := read_value(made["value"] or made["made"])):
        return _put_value(clause, clause.mention.ranks, value, 0)
    return None


def read_bare_request(text: str) -> FactOperation | None:
    """Return what a whole sentence without a topic asks for: "Swap first and second." or "Remove #2."."""
    if len(text) > 200 or not _BARE.search(text):
        return None
    opened = strip_fillers(text.rstrip(" .!"))
    rest = re.sub(r",? (?:please|thanks|thank you)$", "", opened.rest.rstrip(" ?" if opened.asks else " "))
    if (swap := _SWAP.fullmatch(rest)) and not swap["of"]:
        return FactOperation("swap", None, ranks=(to_rank(swap["one"]), to_rank(swap["other"])))
    if removal := _REMOVE_RANK.fullmatch(rest):
        return FactOperation("remove", None, ranks=(to_rank(removal["rank"]),))
    return read_bare_move(rest)


def _read_change(clause: Clause, place: str | None) -> Statement | None:
    """Read "change my second favorite color to teal"."""
    to = _TO.match(clause.after)
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
    match = _NOT_HAVE.fullmatch(clause.own)
    if not match or not (match["gone"] or _ANYMORE.match(clause.after)) or clause.mention.ranks:
        return None
    return clause.state("remove")


def _read_removal(clause: Clause, words: str) -> Statement | None:
    """Read "remove green from my favorite colors" and "remove #2 from my favorite colors"."""
    if place := _RANK_ALONE.fullmatch(words):
        return clause.state("remove", ranks=(to_rank(place["rank"]),))
    values = split_values(words)
    return clause.state("remove", [(None, value) for value in values]) if values else None
