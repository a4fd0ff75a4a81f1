"""Requests that give a value another place, or its place to another value: put, insert, move and replace."""

import re
from typing import Final

from app.domain import english
from app.domain.facts.clauses import Clause, Statement
from app.domain.facts.fact import Entry, FactOperation
from app.domain.facts.nouns import has_one_form
from app.domain.facts.phrases import to_rank
from app.domain.facts.values import read_value, split_values

_FORMS: Final = english.forms("facts", "moves")
_EN: Final = english.patterns("facts", "moves")
_WORDS: Final = english.words("facts", "moves")

_MAX_REQUEST: Final = 300
_MAX_BARE: Final = 120
_LONGEST: Final = 6


def read_move(clause: Clause) -> Statement | None:
    """Return what a request to place or to replace a value asks for, or None if the clause is none."""
    own = clause.own
    if len(own) > _MAX_REQUEST or clause.mention.owner != "my":
        return None
    made = _EN.made.fullmatch(own) if len(clause.mention.ranks) == 1 and clause.ends else None
    if made:
        return _insert(clause, "insert", made["made"] or made["put"] or made["named"], clause.mention.ranks[0])
    if not clause.mention.plural and not (clause.mention.noun and has_one_form(clause.mention.noun[-1])):
        return None
    if _EN.inside.fullmatch(own) and clause.opens and (request := _EN.afterwards.match(clause.after)):
        return _read_inner(clause, request["request"])
    old = _EN.replace_in.fullmatch(own)
    if old and (replaced := _read_replaced_in(clause, old["old"])):
        return replaced
    if (into := _EN.put_into.fullmatch(own)) and (spot := _EN.then_at.match(clause.after)):
        return _insert(clause, "insert", into["value"], _spot_rank(spot), used=spot.end())
    if not clause.ends:
        return None
    for form in _FORMS.replaced:
        if match := form.fullmatch(own):
            return _replace(clause, match, len(clause.after))
    if placed := _EN.placed.fullmatch(own):
        return _insert(clause, "move" if placed["move"] else "insert", placed["value"], _spot_rank(placed))
    return None


def read_bare_move(text: str) -> FactOperation | None:
    """Return what a whole sentence without a topic asks for: "Move red to third." or "Replace red with blue."."""
    if len(text) > _MAX_BARE:
        return None
    for form in _FORMS.replaced_bare:
        if (match := form.fullmatch(text)) and (entries := _old_and_new(match["old"], match["new"])):
            return FactOperation("replace", None, entries)
    placed = _EN.placed.fullmatch(text)
    if placed and (value := _read_thing(placed["value"])):
        return FactOperation("move", None, ((_spot_rank(placed), value),))
    return None


def _read_inner(clause: Clause, request: str) -> Statement | None:
    """Read "in my favorite colors, replace red with blue" and "… put red second"."""
    request = request.strip()
    if len(request) > _MAX_REQUEST:
        return None
    for form in _FORMS.replaced_bare:
        if match := form.fullmatch(request):
            return _replace(clause, match, len(clause.after))
    placed = _EN.placed.fullmatch(request)
    if not placed:
        return None
    op = "move" if placed["move"] else "insert"
    return _insert(clause, op, placed["value"], _spot_rank(placed), used=len(clause.after))


def _read_replaced_in(clause: Clause, old: str) -> Statement | None:
    """Read "replace red in my favorite colors with blue"."""
    match = _EN.with_word.match(clause.after)
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
    value = read_value(_EN.determiner.sub("", words, count=1) if words[:1].islower() else words)
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
