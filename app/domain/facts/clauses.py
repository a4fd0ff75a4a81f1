"""The grammar of statements: what the words before and after a mention of favorites state about them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from app.domain.facts.fact import Entry, FactOperation
from app.domain.facts.fillers import is_blank
from app.domain.facts.look_alikes import casts_doubt, tells_state
from app.domain.facts.mentions import Mention
from app.domain.facts.ranked_lists import MARK, mark_ranks, read_marks
from app.domain.facts.values import cut_value, cut_values, read_value, split_values

Op = Literal["put", "list", "set", "append", "remove", "swap"]
Block = Callable[[], tuple[list[tuple[int, str]], int]]
"""Reader of the list on the lines after a sentence: its ranks and values, and the number of the line after it."""

_OWN_OPENING: Final = re.compile(
    r"here(?: are|'s| is)|(?:these|those) are|this is|let me (?:share|list)(?: with you)?|(?:the|a) list of",
    re.IGNORECASE,
)
_ONE_OF: Final = re.compile(r"(?:one|another|another one|some) of", re.IGNORECASE)
_OF_MINE: Final = re.compile(r" of mine\b", re.IGNORECASE)
_INVERTED: Final = re.compile(
    r" (?P<verb>is|are)(?P<lost>n't| not)?"
    r"(?P<adverbs>(?: (?:now|still|definitely|also|actually|currently|easily|both|all|no longer))*)"
    r"(?P<of>(?: (?:one|two|three|some|another|another one|among) of| among)?)$",
    re.IGNORECASE,
)
_ORDER: Final = r"(?:ranked )?in (?:this |that |no (?:particular |special )?)?order(?: of preference)?"
_DIRECT: Final = re.compile(
    rf"(?:,? \(?(?:{_ORDER}|of all[- ]time|ever|by far|now|currently|also|still|so far|both)\)?,?(?![\w'])){{0,3}}"
    r"(?: (?P<be>is|are)(?P<gone> no longer)?|(?P<lost> no longer)? (?P<include>include)s?)?(?![\w'])"
    r"(?P<sign> ?[:=](?!\S*[)(])| [-–—]{1,2}(?= ))?",
    re.IGNORECASE,
)
_LEAD_IN: Final = re.compile(
    rf"[\s:,]*(?:as follows|the following(?: ones)?|{_ORDER}|these|like this|listed below|below)[\s:,]*(?=$|[\w#\"'])",
    re.IGNORECASE,
)
_END: Final = re.compile(
    r"(?:,? (?:too|as well|also|now|of all[- ]time|ever|by far|please|pls|thanks|any ?more|hands down|again|instead|tbh"
    r"|btw|for sure|list|then|lol)(?![\w']))*"
    r"(?: ?$| ?[.!?,;)…]| [-–—]|,? (?:and|but|because|so|since|cause|cuz|though|although|which|as)(?![\w'])"
    r"| ?[^\w\s'\"(/&#@%$])",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(
    r",? (?:but )?(?:only )?(?:if|unless|when|whenever)\b(?! you(?:'re)? (?:ask|must|want|need|wonder|care|curious))",
    re.IGNORECASE,
)
_REPORT: Final = re.compile(
    r",? (?:or so |apparently|supposedly|allegedly|according to"
    r"|as a (?:child|kid|teen|teenager|boy|girl|baby)"
    r"|(?:[\w']+ ){0,2}(?:says?|said|claims?|claimed|thinks?|insists?)\b)",
    re.IGNORECASE,
)
_ANYMORE: Final = re.compile(r" any ?more\b", re.IGNORECASE)
_CORRECTED: Final = re.compile(
    r"[\s,.;–—-]+(?:or )?(?:(?:no|wait|sorry|oops|scratch that|strike that|i mean|i meant|rather|make that|actually"
    r"|correction)\b[\s,.:;–—-]*){1,4}(?=\S)(?!doubt|question)",
    re.IGNORECASE,
)
"""Words after which the values before them are taken back: "red, no wait, blue"."""
_MAX_CORRECTIONS: Final = 4
_DASHES: Final = frozenset({" -", " –", " —", " --"})
_VERB: Final = re.compile(r" (?:is|are) ")
_MAX_INVERTED: Final = 8


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing that a sentence does to stored facts, if anything.

    `end` is the offset at which it ends, `next_line` the number of the line after its list (0 without a list).
    `corrects` tells whether it replaces what the same message said before.
    """

    operation: FactOperation | None
    end: int
    next_line: int = 0
    corrects: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """A mention of favorites, its own words before it, and the words after it up to the next mention.

    `opens` tells whether the clause opens its sentence; `read_block` reads the list on the lines after the clause if
    nothing else follows in its line.
    """

    own: str
    mention: Mention
    after: str
    opens: bool
    read_block: Block

    def state(self, op: Op, entries: Sequence[Entry] = (), ranks: Sequence[int] = (), used: int = 0) -> Statement:
        """Return a statement that uses `used` characters after the mention. It does nothing without a topic."""
        topic = self.mention.topic
        useful = bool(topic) and (op == "remove" or bool(entries) or bool(ranks))
        made = FactOperation(op, topic, tuple(entries), tuple(ranks)) if useful else None
        return Statement(made, self.mention.end + used)

    @property
    def ends(self) -> bool:
        """Tell whether the clause ends after the mention."""
        return _END.match(self.after) is not None


def read_direct(clause: Clause) -> Statement | None:
    """Read "my favorite colors are …", "Favorite colors: …" and "one of my favorite colors is …"."""
    verb = _DIRECT.match(clause.after)
    if verb is None:
        return None
    mention, rest = clause.mention, clause.after[verb.end() :]
    named = verb["be"] or verb["include"] or verb["sign"]
    if mention.owner == "a":
        return _read_another(clause, verb)
    if not is_blank(clause.own):
        if verb["sign"] and _OWN_OPENING.fullmatch(clause.own):
            return _read_list(clause, verb, rest)
        return _read_another(clause, verb) if verb["be"] and _ONE_OF.fullmatch(clause.own) else None
    if mention.owner == "" and not (clause.opens and (verb["sign"] or not named)):
        return None
    if verb["gone"] or verb["lost"]:
        values = split_values(cut_values(rest)[0])
        return clause.state("remove", _unranked(values), used=len(clause.after)) if values else None
    if verb["include"]:
        return _read_append(clause, rest)
    if not named:
        return _read_heading(clause)
    return _read_list(clause, verb, rest)


def read_inverted(clause: Clause) -> Statement | None:
    """Read "red and blue are my favorite colors" and "purple is also one of my favorite colors"."""
    match = _INVERTED.search(clause.own)
    if match is None:
        return None
    mention, text = clause.mention, clause.own[: match.start()]
    mine = _OF_MINE.match(clause.after) if mention.owner == "a" else None
    if mine:
        clause = replace(clause, after=clause.after[mine.end() :])
    if match["lost"] and not _ANYMORE.match(clause.after):
        return None
    if not clause.ends or casts_doubt(text) or (mention.owner == "a" and not mine):
        return None
    several = match["verb"].lower() == "are"
    if several and MARK.match(text):
        return _store_ranks(clause, read_marks(text), 0)
    values = _inverted_values(text, several=several)
    if not values:
        return None
    adverbs = match["adverbs"].lower()
    if "no longer" in adverbs or match["lost"]:
        return clause.state("remove", _unranked(values))
    if mention.ranks:
        return clause.state("put", tuple(zip(mention.ranks, values, strict=False)))
    if match["of"] or mine or "also" in adverbs:
        return clause.state("append", _unranked(values))
    return _store_values(clause, values, 0)


def _inverted_values(text: str, *, several: bool) -> list[str]:
    """Return the values before "is" or "are". A clause or a remark among them makes the list empty."""
    text = (
        text[0].lower() + text[1:] if text[1:2].islower() and read_value(text[0].lower() + text[1:]) is None else text
    )
    whole, rest = cut_values(text)
    if rest or len(text) > 1000 or (not several and "," in text):
        return []
    values = split_values(whole) if several else [value for value in [read_value(whole)] if value]
    return values if all(len(value.split()) <= _MAX_INVERTED for value in values) else []


def _read_another(clause: Clause, verb: re.Match[str]) -> Statement | None:
    """Read "one of my favorite colors is …" and "another favorite color of mine is …"."""
    if clause.mention.owner == "a":
        mine = _OF_MINE.match(clause.after)
        verb_after = _DIRECT.match(clause.after, mine.end()) if mine else None
        if not verb_after or not verb_after["be"] or not is_blank(clause.own):
            return None
        verb = verb_after
    value = read_value(cut_value(clause.after[verb.end() :])[0])
    return clause.state("append", [(None, value)], used=verb.end()) if value else None


def _read_append(clause: Clause, rest: str) -> Statement | None:
    """Read the values after "include"."""
    values, following = cut_values(rest)
    found = split_values(values)
    return clause.state("append", _unranked(found), used=len(clause.after) - len(following)) if found else None


def _read_heading(clause: Clause) -> Statement | None:
    """Read a line that is only a mention, with a list on the lines after it."""
    if clause.after or not clause.opens or not clause.mention.plural:
        return None
    entries, next_line = clause.read_block()
    return replace(_store_ranks(clause, entries, 0), next_line=next_line) if entries else None


def _read_list(clause: Clause, verb: re.Match[str], rest: str) -> Statement | None:
    """Read the ranks or values after "is", "are" or a colon."""
    while lead_in := _LEAD_IN.match(rest):
        rest = rest[lead_in.end() :]
    rest = mark_ranks(rest.strip())
    if not rest.strip(" :,"):
        entries, next_line = clause.read_block()
        return replace(_store_ranks(clause, entries, len(clause.after)), next_line=next_line) if entries else None
    if MARK.match(rest) and (pairs := read_marks(rest)):
        return _store_ranks(clause, pairs, len(clause.after))
    mention = clause.mention
    one = not mention.plural and verb["be"] is not None and verb["be"].lower() == "is" and len(mention.ranks) < 2
    single = one or len(mention.ranks) == 1
    text, following = cut_value(rest) if single else cut_values(rest)
    for _ in range(_MAX_CORRECTIONS):
        if not (corrected := _CORRECTED.match(following)):
            break
        rest = following[corrected.end() :]
        text, following = cut_value(rest) if single else cut_values(rest)
    if _CONDITION.match(following) or _REPORT.match(following) or (verb["sign"] in _DASHES and _VERB.search(rest)):
        return None
    values = [value for value in [read_value(text)] if value] if single else split_values(text)
    named = rest[:1] not in {'"', "'"}
    if one and verb["be"] and named and any(tells_state(value, mention.noun) for value in values):
        return None
    return _store_values(clause, values, len(clause.after) - len(following)) if values else None


def _store_values(clause: Clause, values: Sequence[str], used: int) -> Statement:
    """Return the statement of values in order."""
    mention = clause.mention
    if mention.ranks:
        return clause.state("put", tuple(zip(mention.ranks, values, strict=False)), used=used)
    if mention.count is not None:
        return clause.state("put", tuple(enumerate(values[: mention.count], 1)), used=used)
    if len(values) > 1:
        return clause.state("list", tuple(enumerate(values, 1)), used=used)
    return clause.state("set", _unranked(values), used=used)


def _store_ranks(clause: Clause, pairs: Sequence[tuple[int, str]], used: int) -> Statement:
    """Return the statement of values with ranks: a whole list if its ranks have no gap."""
    mention = clause.mention
    whole = len(pairs) > 1 and mention.count is None
    kept = [(rank, value) for rank, value in pairs if mention.count is None or rank <= mention.count]
    return clause.state("list" if whole else "put", kept, used=used)


def _unranked(values: Sequence[str]) -> tuple[Entry, ...]:
    return tuple((None, value) for value in values)
