"""The grammar of statements: what the words before and after a mention of favorites state about them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from app.domain import english
from app.domain.facts.fact import Entry, FactOperation
from app.domain.facts.fillers import is_blank
from app.domain.facts.look_alikes import casts_doubt, tells_state
from app.domain.facts.mentions import Mention
from app.domain.facts.orders import mark_ranks, read_order
from app.domain.facts.ranked_lists import MARK, read_marks
from app.domain.facts.values import cut_value, cut_values, read_value, split_values

_EN: Final = english.patterns("facts", "clauses")
_WORDS: Final = english.words("facts", "clauses")

Op = Literal["put", "list", "set", "append", "remove", "swap", "insert", "move", "replace"]
Block = Callable[[], tuple[list[tuple[int, str]], int]]
"""Reader of the list on the lines after a sentence: its ranks and values, and the number of the line after it."""

_MAX_CORRECTIONS: Final = 4
_DASHES: Final = frozenset({" -", " –", " —", " --"})
_MAX_BEFORE: Final = 1000
"""The longest text before "… are my favorite colors" that is read for values."""
_MAX_INVERTED: Final = 8


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing that a sentence does to stored facts, if anything.

    `end` is the offset at which it ends, `next_line` the number of the line after its list (0 without a list).
    `corrects`: it replaces what the same message said before. `further` are operations after the first.
    """

    operation: FactOperation | None
    end: int
    next_line: int = 0
    corrects: bool = False
    further: tuple[FactOperation, ...] = ()


@dataclass(frozen=True, slots=True)
class Clause:
    """A mention of favorites, its own words before it, and the words after it up to the next mention.

    `opens` tells whether the clause opens its sentence; `read_block` reads the list on the lines after the clause if
    nothing else follows in its line, `read_before` the list before its sentence. `rank` is the rank of the line, 0 of a
    bullet, None if the line is no entry of a list. `mine` tells whether "of mine" stood after the noun.
    """

    own: str
    mention: Mention
    after: str
    opens: bool
    read_block: Block
    read_before: Callable[[], list[tuple[int, str]]] = list
    rank: int | None = None
    mine: bool = False

    def state(self, op: Op, entries: Sequence[Entry] = (), ranks: Sequence[int] = (), used: int = 0) -> Statement:
        """Return a statement that uses `used` characters after the mention. It does nothing without a topic."""
        topic = self.mention.topic
        named = bool(topic) or (self.mention.elliptic and bool(self.mention.ranks) and op in {"put", "replace"})
        useful = named and (op == "remove" or bool(entries) or bool(ranks))
        made = FactOperation(op, topic, tuple(entries), tuple(ranks)) if useful else None
        return Statement(made, self.mention.end + used)

    @property
    def ends(self) -> bool:
        """Tell whether the clause ends after the mention."""
        return _EN.end.match(self.after) is not None


def read_direct(clause: Clause) -> Statement | None:
    """Read "my favorite colors are …", "Favorite colors: …" and "one of my favorite colors is …"."""
    clause = _own_mine(clause)
    if clause.mention.owner == "have":
        return _read_counted(clause)
    verb = _EN.direct.match(clause.after)
    if verb is None:
        return None
    mention = clause.mention
    rest = clause.after[verb.end() :]
    named = verb["be"] or verb["short"] or verb["modal"] or verb["include"] or verb["sign"]
    if mention.owner == "a":
        return _read_another(clause, verb)
    if not is_blank(clause.own):
        return _read_introduced(clause, verb, rest)
    if mention.owner == "" and not (clause.opens and (verb["sign"] or not named or clause.mine)):
        return None
    if verb["include"]:
        return _read_include(clause, verb, rest)
    if verb["gone"] or verb["negated"]:
        return _read_negated(clause, rest, lapsed=verb["gone"] is not None)
    if not named and (comma := _EN.comma_before_rank.match(clause.after)):
        return _read_list(clause, verb, clause.after[comma.end() :])
    if not named:
        return _read_heading(clause)
    return _read_list(clause, verb, rest)


def read_inverted(clause: Clause) -> Statement | None:
    """Read "red and blue are my favorite colors" and "purple is also one of my favorite colors"."""
    match = _EN.inverted.search(clause.own)
    if match is None:
        return None
    mention = clause.mention
    text = clause.own[: match.start()]
    if len(text) > _MAX_BEFORE:
        return None
    text = _EN.anaphor.sub("", text)
    if liked := _EN.liked.fullmatch(clause.own[: match.start()]):
        text = liked["value"] or liked["short"]
    mine = _EN.of_mine.match(clause.after) if mention.owner == "a" else None
    if mine:
        clause = replace(clause, after=clause.after[mine.end() :])
    if match["lost"] and not _EN.anymore.match(clause.after):
        return None
    if not clause.ends or casts_doubt(text) or (mention.owner == "a" and not mine) or mention.owner == "have":
        return None
    several = (match["verb"] or "").lower() == "are" or " and also " in text
    if several and (pairs := read_marks(text) if MARK.match(text) else read_order(text)):
        return _store_ranks(clause, pairs, 0)
    if several and not match["of"] and _EN.pointer.fullmatch(text.strip()) and not clause.after.strip(" :.!"):
        entries, next_line = clause.read_block()
        if entries and not clause.read_before():
            return replace(_store_ranks(clause, entries, len(clause.after)), next_line=next_line)
    if several and not match["of"] and (pairs := _read_list_before(clause, text)):
        return _store_ranks(clause, pairs, 0)
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


def read_forgetting(clause: Clause) -> Statement | None:
    """Read "forget that my favorite food is pizza" and "forget that Heat is one of my favorite movies"."""
    if not (opened := _EN.forget.match(clause.own)) or clause.mention.owner != "my":
        return None
    own = clause.own[opened.end() :].strip()
    verb = _EN.direct.match(clause.after)
    if not own and verb and verb["be"]:
        text, following = cut_values(clause.after[verb.end() :])
        values = split_values(text)
        return clause.state("remove", _unranked(values), used=len(clause.after) - len(following)) if values else None
    inverted = _EN.inverted.search(own)
    if not inverted or not clause.ends or inverted["lost"]:
        return None
    values = _inverted_values(own[: inverted.start()], several=(inverted["verb"] or "").lower() == "are")
    return clause.state("remove", _unranked(values)) if values else None


def _own_mine(clause: Clause) -> Clause:
    """Return the clause of "favorite colors of mine …" as one of "my favorite colors …"."""
    mine = _EN.of_mine.match(clause.after) if clause.mention.owner in {"", "my"} else None
    return replace(clause, after=clause.after[mine.end() :], mine=True) if mine else clause


def _read_introduced(clause: Clause, verb: re.Match[str], rest: str) -> Statement | None:
    """Read "these are my favorite colors: …" and "one of my favorite colors is …"."""
    if verb["sign"] and _EN.own_opening.fullmatch(clause.own):
        return _read_list(clause, verb, rest)
    return _read_another(clause, verb) if (verb["be"] or verb["sign"]) and _EN.one_of.fullmatch(clause.own) else None


def _read_counted(clause: Clause) -> Statement | None:
    """Read "I have three favorite colors: red, blue and green"."""
    adverbs = _EN.adverbs.match(clause.after)
    named = _EN.named.match(clause.after, adverbs.end() if adverbs else 0)
    if not named or not is_blank(clause.own) or not clause.mention.favorite:
        return None
    rest = clause.after[named.end() :].strip(" :")
    if named["opened"]:
        rest = rest.partition(")")[0]
    if not rest:
        entries, next_line = clause.read_block()
        clause = replace(clause, mention=replace(clause.mention, count=None))
        return replace(_store_ranks(clause, entries, len(clause.after)), next_line=next_line) if entries else None
    count = clause.mention.count
    mention = replace(clause.mention, count=None)
    clause = replace(clause, mention=mention)
    rest = mark_ranks(rest)
    if pairs := read_marks(rest) if MARK.match(rest) else read_order(rest):
        return _store_ranks(clause, pairs, len(clause.after))
    text, following = cut_values(rest)
    values = split_values(text)
    if not values or (named[0] in {",", ";"} and len(values) != count):
        return None
    return _store_values(clause, values, len(clause.after) - len(following))


def _read_include(clause: Clause, verb: re.Match[str], rest: str) -> Statement | None:
    """Read "my favorite colors include red", "… no longer include red" and "… don't include red anymore"."""
    text, following = cut_values(rest)
    values = split_values(text)
    used = len(clause.after) - len(following)
    if not values:
        return None
    if verb["lost"] or (verb["refused"] and (_EN.lapsed.search(text) or _EN.lapsed.match(following))):
        return clause.state("remove", _unranked(values), used=used)
    return None if verb["refused"] else clause.state("append", _unranked(values), used=used)


def _read_negated(clause: Clause, rest: str, *, lapsed: bool) -> Statement | None:
    """Read "… is no longer red (but blue)", "… isn't red anymore" and "… isn't red, it's blue"."""
    text, following = cut_values(rest)
    lapsed = lapsed or _EN.lapsed.search(text) is not None
    old = split_values(_EN.lapsed.sub("", text))
    but = _EN.but.match(following)
    if not old or not (but or lapsed) or _EN.not_merely.match(text):
        return None
    if not but:
        return clause.state("remove", _unranked(old), used=len(clause.after) - len(following))
    text, following = cut_values(following[but.end() :])
    new = split_values(text)
    used = len(clause.after) - len(following)
    if not new:
        return None
    return _replace_values(clause, old, new, used)


def _replace_values(clause: Clause, old: Sequence[str], new: Sequence[str], used: int) -> Statement:
    """Return the statement that new values replace old ones. A single favorite becomes rank 1."""
    ranks = clause.mention.ranks
    if ranks and clause.mention.topic:
        return clause.state("put", tuple(zip(ranks, new, strict=False)), used=used)
    made = clause.state("replace", [(None, old[0]), (None if clause.mention.plural or ranks else 1, new[0])], used=used)
    further = [clause.state("replace", [(None, was), (None, now)]) for was, now in zip(old[1:], new[1:], strict=False)]
    if len(old) > len(new):
        further.append(clause.state("remove", _unranked(old[len(new) :])))
    if clause.mention.plural or len(new) > 1:
        further.append(clause.state("append", _unranked(new)))
    return replace(made, further=tuple(at.operation for at in further if at.operation))


def _read_list_before(clause: Clause, text: str) -> list[tuple[int, str]]:
    """Return the list on the lines before the clause, with `text` as its last value if that is one."""
    if _EN.pointer.fullmatch(text.strip()):
        return clause.read_before()
    if clause.rank is None:
        return []
    value = read_value(text)
    before = clause.read_before()
    return [*before, (clause.rank or len(before) + 1, value)] if value and before else []


def _inverted_values(text: str, *, several: bool) -> list[str]:
    """Return the values before "is" or "are". A clause or a remark among them makes the list empty."""
    if len(text) > _MAX_BEFORE:
        return []
    text = (
        text[0].lower() + text[1:] if text[1:2].islower() and read_value(text[0].lower() + text[1:]) is None else text
    )
    whole, rest = cut_values(text)
    if rest or (not several and "," in text):
        return []
    values = split_values(whole) if several else [value for value in [read_value(whole)] if value]
    return values if all(len(value.split()) <= _MAX_INVERTED for value in values) else []


def _read_another(clause: Clause, verb: re.Match[str]) -> Statement | None:
    """Read "one of my favorite colors is …" and "some favorite foods of mine: …"."""
    if clause.mention.owner == "a":
        mine = _EN.of_mine.match(clause.after)
        verb_after = _EN.direct.match(clause.after, mine.end()) if mine else None
        named = verb_after and (verb_after["be"] or verb_after["sign"])
        if not verb_after or not named or verb_after["negated"] or not is_blank(clause.own):
            return None
        verb = verb_after
    rest = clause.after[verb.end() :]
    if (verb["be"] or "").lower() == "is":
        value = read_value(cut_value(rest)[0])
        return clause.state("append", [(None, value)], used=verb.end()) if value else None
    text, following = cut_values(rest)
    values = split_values(text)
    return clause.state("append", _unranked(values), used=len(clause.after) - len(following)) if values else None


def _read_heading(clause: Clause) -> Statement | None:
    """Read a line that is only a mention, with a list on the lines after it."""
    verb = _EN.direct.match(clause.after)
    if (
        clause.after[verb.end() if verb else 0 :].strip(" :")
        or not clause.opens
        or not (clause.mention.plural or clause.mention.count)
    ):
        return None
    entries, next_line = clause.read_block()
    return replace(_store_ranks(clause, entries, 0), next_line=next_line) if entries else None


def _read_list(clause: Clause, verb: re.Match[str], rest: str) -> Statement | None:
    """Read the ranks or values after "is", "are" or a colon."""
    while lead_in := _EN.lead_in.match(rest):
        rest = rest[lead_in.end() :]
    rest = mark_ranks(rest.lstrip(" ,"))
    if not rest.strip(" :,.…-–—"):
        entries, next_line = clause.read_block()
        if len(entries) == 1 and not clause.mention.plural and not clause.mention.ranks:
            return replace(_store_values(clause, [entries[0][1]], len(clause.after)), next_line=next_line)
        return replace(_store_ranks(clause, entries, len(clause.after)), next_line=next_line) if entries else None
    if MARK.match(rest) and (pairs := read_marks(rest)):
        return _store_ranks(clause, pairs, len(clause.after))
    if pairs := read_order(rest):
        return _store_ranks(clause, pairs, len(clause.after))
    mention = clause.mention
    is_one = verb["short"] is not None or verb["modal"] is not None or (verb["be"] or "").lower() == "is"
    one = not mention.plural and is_one and len(mention.ranks) < 2
    single = one or len(mention.ranks) == 1
    text, following = cut_value(rest) if single else cut_values(rest)
    for _ in range(_MAX_CORRECTIONS):
        if not (corrected := _EN.corrected.match(following)):
            break
        rest = following[corrected.end() :]
        text, following = cut_value(rest) if single else cut_values(rest)
    if (
        _EN.condition.match(following)
        or _EN.report.match(following)
        or (verb["sign"] in _DASHES and _EN.verb.search(rest))
    ):
        return None
    values = [value for value in [read_value(text)] if value] if single else split_values(text)
    several = (verb["be"] or "").lower() == "are" and mention.plural and len(values) == 1
    if not single and values and (_EN.wrapped.search(rest[-20:]) or (several and not following.strip())):
        entries, next_line = clause.read_block()
        values += [value for _, value in entries]
        return replace(_store_values(clause, values, len(clause.after)), next_line=next_line)
    named = rest[:1] not in {'"', "'"}
    if values and not verb["include"] and (pairs := _read_further_ranks(clause, values, following)):
        return _store_ranks(clause, pairs, len(clause.after))
    if verb["short"] and values and ("'s " in values[0] or not _names_after_short(values[0], following)):
        return None
    if one and named and any(tells_state(value, mention.noun) for value in values):
        return None
    return _store_values(clause, values, len(clause.after) - len(following)) if values else None


def _read_further_ranks(clause: Clause, values: Sequence[str], following: str) -> list[tuple[int, str]]:
    """Return the ranks of "… is red, second is blue" and "… is red, then blue", the first one too; else nothing."""
    mention = clause.mention
    if len(mention.ranks) > 1 or (mention.ranks and len(values) > 1):
        return []
    first = mention.ranks[0] if mention.ranks else 1
    further = read_order(following, after=first + len(values) - 1)
    return [*enumerate(values, first), *further] if further else []


def _names_after_short(value: str, following: str) -> bool:
    """Tell whether a verb and a name follow "my favorite song", and no possessive as in "my favorite team's coach"."""
    capital = all(word[:1].isupper() or word in _WORDS.small_words for word in value.split())
    return capital or _EN.next_clause.fullmatch(following) is not None


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
    whole = len(pairs) > 1 and mention.count is None and not mention.ranks
    kept = [(rank, value) for rank, value in pairs if mention.count is None or rank <= mention.count]
    return clause.state("list" if whole else "put", kept, used=used)


def _unranked(values: Sequence[str]) -> tuple[Entry, ...]:
    return tuple((None, value) for value in values)
