"""Requests to change stored favorites: add, remove, change, swap, put, insert, move and replace."""

import re
from typing import Final

from app.domain import english
from app.domain.facts.clauses import Clause, Statement
from app.domain.facts.fact import Entry, FactOperation
from app.domain.facts.fillers import strip_fillers
from app.domain.facts.nouns import has_one_form
from app.domain.facts.phrases import to_rank
from app.domain.facts.values import cut_value, cut_values, read_value, split_values

_EN: Final = english.patterns("facts", "requests")

_MAX_LIKED: Final = 300
_MOVE_FORMS: Final = english.forms("facts", "moves")
_MOVES: Final = english.patterns("facts", "moves")
_WORDS: Final = english.words("facts", "moves")

_MAX_REQUEST: Final = 300
_MAX_BARE: Final = 120
_LONGEST: Final = 6


def read_move(clause: Clause) -> Statement | None:
    """Return what a request to place or to replace a value asks for, or None if the clause is none."""
    own = clause.own
    if len(own) > _MAX_REQUEST or clause.mention.owner != "my":
        return None
    made = _MOVES.made.fullmatch(own) if len(clause.mention.ranks) == 1 and clause.ends else None
    if made:
        return _insert(clause, "insert", made["made"] or made["put"] or made["named"], clause.mention.ranks[0])
    if not clause.mention.plural and not (clause.mention.noun and has_one_form(clause.mention.noun[-1])):
        return None
    if _MOVES.inside.fullmatch(own) and clause.opens and (request := _MOVES.afterwards.match(clause.after)):
        return _read_inner(clause, request["request"])
    old = _MOVES.replace_in.fullmatch(own)
    if old and (replaced := _read_replaced_in(clause, old["old"])):
        return replaced
    if (into := _MOVES.put_into.fullmatch(own)) and (spot := _MOVES.then_at.match(clause.after)):
        return _insert(clause, "insert", into["value"], _spot_rank(spot), used=spot.end())
    if not clause.ends:
        return None
    for form in _MOVE_FORMS.replaced:
        if match := form.fullmatch(own):
            return _replace(clause, match, len(clause.after))
    if placed := _MOVES.placed.fullmatch(own):
        return _insert(clause, "move" if placed["move"] else "insert", placed["value"], _spot_rank(placed))
    return None


def read_bare_move(text: str) -> FactOperation | None:
    """Return what a whole sentence without a topic asks for: "Move red to third." or "Replace red with blue."."""
    if len(text) > _MAX_BARE:
        return None
    for form in _MOVE_FORMS.replaced_bare:
        if (match := form.fullmatch(text)) and (entries := _old_and_new(match["old"], match["new"])):
            return FactOperation("replace", None, entries)
    placed = _MOVES.placed.fullmatch(text)
    if placed and (value := _read_thing(placed["value"])):
        return FactOperation("move", None, ((_spot_rank(placed), value),))
    return None


def _read_inner(clause: Clause, request: str) -> Statement | None:
    """Read "in my favorite colors, replace red with blue" and "… put red second"."""
    request = request.strip()
    if len(request) > _MAX_REQUEST:
        return None
    for form in _MOVE_FORMS.replaced_bare:
        if match := form.fullmatch(request):
            return _replace(clause, match, len(clause.after))
    placed = _MOVES.placed.fullmatch(request)
    if not placed:
        return None
    op = "move" if placed["move"] else "insert"
    return _insert(clause, op, placed["value"], _spot_rank(placed), used=len(clause.after))


def _read_replaced_in(clause: Clause, old: str) -> Statement | None:
    """Read "replace red in my favorite colors with blue"."""
    match = _MOVES.with_word.match(clause.after)
    entries = _old_and_new(old, match["new"]) if match else None
    return clause.state("replace", entries, used=match.end()) if match and entries else None


def _replace(clause: Clause, match: re.Match[str], used: int) -> Statement | None:
    found = match.groupdict()
    entries = _old_and_new(found["old"] or found.get("was") or "", found["new"])
    return clause.state("replace", entries, used=used) if entries else None


def _old_and_new(old: str, new: str) -> tuple[Entry, Entry] | None:
    """Return the entries of a replacement, or None if one of the words names nothing."""
    was = _read_thing(old)
    now = _read_thing(new)
    return ((None, was), (None, now)) if was and now else None


def _read_thing(words: str) -> str | None:
    """Return the one value that words name."""
    value = read_value(_MOVES.determiner.sub("", words, count=1) if words[:1].islower() else words)
    plain = value and len(value.split()) <= _LONGEST and value.lower() not in _WORDS.no_values and to_rank(value) == 0
    return value if plain else None


def _spot_rank(match: re.Match[str]) -> int | None:
    """Return the rank that a place names; None is the last one."""
    if match["last"]:
        return None
    return 1 if match["top"] else to_rank(match["rank"] or match["number"])


def _insert(clause: Clause, op: str, words: str, rank: int | None, used: int = 0) -> Statement | None:
    value = _read_thing(words)
    if not value or len(split_values(words)) > 1:
        return None
    return clause.state("move" if op == "move" else "insert", [(rank, value)], used=used)


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
