"""Requests that give a value another place, or its place to another value: put, insert, move and replace."""

import re
from typing import Final

from app.domain.facts.clauses import Clause, Statement
from app.domain.facts.fact import Entry, FactOperation
from app.domain.facts.nouns import has_one_form
from app.domain.facts.phrases import NUMBER, RANK, to_rank
from app.domain.facts.values import read_value, split_values

_MAX_REQUEST: Final = 300
_MAX_BARE: Final = 120
_AT: Final = r"(?:(?:up |down |back )?(?:to|at|in|as|into|on) )?(?:(?:the|my) )?"
_SPOT: Final = (
    rf"(?:(?P<rank>{RANK})(?: (?:place|spot|position|slot|choice))?|(?:position|place|rank|spot"
    rf"|slot) (?P<number>{NUMBER})"
    r"|(?P<top>(?:very )?(?:top|start|beginning|front)(?: spot| place| position)?)"
    r"|(?P<last>(?:very )?(?:bottom|end|last(?: place)?)))"
)
_IN: Final = r"(?:in|on|of|among|into|to|from|within|off)(?: (?:the|my) list of)?"
_PUT: Final = r"(?:put|insert|place|add|slot|squeeze|list|rank|set|stick|have)"
_MOVE: Final = r"(?:move|bump|shift|push|bring|promote|demote|drop)"
_PLACED: Final = re.compile(
    rf"(?:{_PUT}|(?P<move>{_MOVE})) (?P<value>.+?) {_AT}{_SPOT}(?: ones?)?(?: {_IN})?", re.IGNORECASE
)
_PUT_INTO: Final = re.compile(rf"{_PUT} (?P<value>.+?) (?:in|into|to|on|onto)(?: (?:the|my) list of)?", re.IGNORECASE)
_THEN_AT: Final = re.compile(rf",? {_AT}{_SPOT}(?=$|[\s.,;!])", re.IGNORECASE)
_MADE: Final = re.compile(
    r"(?:make (?P<made>.+?)|(?:put|add|rank|list) (?P<put>.+?) as|(?:crown|declare|name|call) (?P<named>.+?))",
    re.IGNORECASE,
)
_OLD_NEW: Final = (
    r"(?:(?:replace|swap out|switch out) (?P<old>.+?) (?:with|by|for)|(?:swap|trade|exchange|change"
    r"|switch) (?P<was>.+?)"
    r" (?:for|to|into)) (?P<new>.+?)"
)
_NEW_OLD: Final = r"substitute (?P<new>.+?) for (?P<old>.+?)"
_REPLACED: Final = tuple(re.compile(rf"{form} {_IN}", re.IGNORECASE) for form in (_OLD_NEW, _NEW_OLD))
_REPLACED_BARE: Final = (
    re.compile(r"(?:replace|swap out) (?P<old>.+?) (?:with|by|for) (?P<new>.+?)", re.IGNORECASE),
    re.compile(r"swap (?P<old>.+?) for (?P<new>.+?)", re.IGNORECASE),
    re.compile(_NEW_OLD, re.IGNORECASE),
)
_REPLACE_IN: Final = re.compile(rf"(?:replace|change|swap(?: out)?|switch) (?P<old>.+?) {_IN}", re.IGNORECASE)
_WITH: Final = re.compile(r" (?:with|by|for|to) (?P<new>[^.!?,;]+)", re.IGNORECASE)
_INSIDE: Final = re.compile(r"(?:in|on|from|within|for|of)", re.IGNORECASE)
_AFTERWARDS: Final = re.compile(r",? (?:please |pls )?(?P<request>[^.!?]+)[.!]*$", re.IGNORECASE)
_DETERMINER: Final = re.compile(r"(?:the|that|my) (?=\S)", re.IGNORECASE)
_NO_VALUES: Final = frozenset({"it", "that", "this", "them", "these", "those", "everything", "one", "something"})
_LONGEST: Final = 6


def read_move(clause: Clause) -> Statement | None:
    """Return what a request to place or to replace a value asks for, or None if the clause is none."""
    own = clause.own
    if len(own) > _MAX_REQUEST or clause.mention.owner != "my":
        return None
    made = _MADE.fullmatch(own) if len(clause.mention.ranks) == 1 and clause.ends else None
    if made:
        return _insert(clause, "insert", made["made"] or made["put"] or made["named"], clause.mention.ranks[0])
    if not clause.mention.plural and not (clause.mention.noun and has_one_form(clause.mention.noun[-1])):
        return None
    if _INSIDE.fullmatch(own) and clause.opens and (request := _AFTERWARDS.match(clause.after)):
        return _read_inner(clause, request["request"])
    old = _REPLACE_IN.fullmatch(own)
    if old and (replaced := _read_replaced_in(clause, old["old"])):
        return replaced
    if (into := _PUT_INTO.fullmatch(own)) and (spot := _THEN_AT.match(clause.after)):
        return _insert(clause, "insert", into["value"], _spot_rank(spot), used=spot.end())
    if not clause.ends:
        return None
    for form in _REPLACED:
        if match := form.fullmatch(own):
            return _replace(clause, match, len(clause.after))
    if placed := _PLACED.fullmatch(own):
        return _insert(clause, "move" if placed["move"] else "insert", placed["value"], _spot_rank(placed))
    return None


def read_bare_move(text: str) -> FactOperation | None:
    """Return what a whole sentence without a topic asks for: "Move red to third." or "Replace red with blue."."""
    if len(text) > _MAX_BARE:
        return None
    for form in _REPLACED_BARE:
        if (match := form.fullmatch(text)) and (entries := _old_and_new(match["old"], match["new"])):
            return FactOperation("replace", None, entries)
    placed = _PLACED.fullmatch(text)
    if placed and (value := _read_thing(placed["value"])):
        return FactOperation("move", None, ((_spot_rank(placed), value),))
    return None


def _read_inner(clause: Clause, request: str) -> Statement | None:
    """Read "in my favorite colors, replace red with blue" and "… put red second"."""
    request = request.strip()
    if len(request) > _MAX_REQUEST:
        return None
    for form in _REPLACED_BARE:
        if match := form.fullmatch(request):
            return _replace(clause, match, len(clause.after))
    placed = _PLACED.fullmatch(request)
    if not placed:
        return None
    op = "move" if placed["move"] else "insert"
    return _insert(clause, op, placed["value"], _spot_rank(placed), used=len(clause.after))


def _read_replaced_in(clause: Clause, old: str) -> Statement | None:
    """Read "replace red in my favorite colors with blue"."""
    match = _WITH.match(clause.after)
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
    value = read_value(_DETERMINER.sub("", words, count=1) if words[:1].islower() else words)
    plain = value and len(value.split()) <= _LONGEST and value.lower() not in _NO_VALUES and to_rank(value) == 0
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
