"""Statements of a user about favorites, and what each does to the stored facts.

The words are English. A doubt means "no": a fact that is not stored can be stated again.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from app.domain.facts.clauses import Clause, Statement, read_direct, read_inverted
from app.domain.facts.cleaning import clean_message
from app.domain.facts.fact import FactOperation
from app.domain.facts.fillers import strip_fillers
from app.domain.facts.look_alikes import asks_further, casts_doubt, marks_joke, takes_back
from app.domain.facts.mentions import find_mentions
from app.domain.facts.phrases import one_of, word_set
from app.domain.facts.ranked_lists import MAX_RANK, first_ranks
from app.domain.facts.requests import read_bare_request, read_request
from app.domain.facts.sentences import Sentence, read_block, read_entries, split_message
from app.domain.facts.topics import READ_LIMIT, FactTopics
from app.domain.facts.values import split_values

_HINT: Final = re.compile(
    r"fav|\b"
    + one_of(
        r"""top (?:\d|one|two|three|four|five|six|seven|eight|nine|ten)|swap\b|switch\b|exchange\b|remove\b|forget\b
        |delete\b|drop\b"""
    ),
    re.IGNORECASE,
)
_SEPARATOR: Final = re.compile(
    r"[,;] ?(?:(?:and|but|so|also|plus) )?| (?:and|but|so|plus|while|whereas) "
    r"| (?:[-–—]{1,3}|:-?[)(DP]|;-?\)|<3|\^\^|[\u2600-\u27bf\U0001f300-\U0001faff]+) ",
    re.IGNORECASE,
)
_JOINT: Final = re.compile(r"[ ,]*(?:(?:and|or|&) )?")
_MAX_SEPARATORS: Final = 8
_ALSO: Final = re.compile(r"(?:oh,? )?(?:and )?also[,:]? (?P<values>[^.!?]{1,200})[.!]*$", re.IGNORECASE)
_FUNCTION_WORDS: Final = word_set(
    "i me my you your we us it this that the a an to for at in on of with please thanks can could what how is are"
)


def read_statements(text: str, topics: FactTopics, max_rank: int = MAX_RANK) -> tuple[FactOperation, ...]:
    """Return what a user's message does to stored facts, in order. Linear; reads the first READ_LIMIT characters.

    Ranks outside 1 to `max_rank` are ignored. Of two values at one rank of a topic the first wins, unless the second
    corrects it ("actually …").
    """
    if not _HINT.search(text, 0, READ_LIMIT):
        return ()
    settled = list(_settle_ranks(_read_message(clean_message(text[:READ_LIMIT]), topics), max_rank))
    ranked = {operation.topic_key for operation in settled if operation.op == "put"}
    return tuple(_rank_first(operation) if operation.topic_key in ranked else operation for operation in settled)


def _rank_first(operation: FactOperation) -> FactOperation:
    """Return a value without a rank as the first one: the same message names other ranks of its topic."""
    if operation.op != "set":
        return operation
    return replace(operation, op="put", entries=((1, operation.entries[0][1]),))


def _read_message(clean: str, topics: FactTopics) -> Iterator[Statement]:
    """Yield the statements of a clean message."""
    lines, sentences = split_message(clean)
    next_line, before = 0, None
    for at, sentence in enumerate(sentences):
        if sentence.line < next_line:
            continue
        also = _read_also(sentence, before)
        before = None
        if at + 1 < len(sentences) and takes_back(sentences[at + 1].text):
            continue
        for statement in also or read_sentence(sentence, lines, topics):
            next_line = max(next_line, statement.next_line)
            if statement.operation:
                before = statement.operation
                yield statement


def read_sentence(sentence: Sentence, lines: Sequence[str], topics: FactTopics) -> Iterator[Statement]:
    """Yield the statements of a sentence, in order. The lists on the lines after it belong to it."""
    if sentence.foreign or sentence.joke:
        return
    text = sentence.text
    mentions = list(find_mentions(text, topics))
    if not mentions and not sentence.quoted and (bare := read_bare_request(text)):
        yield Statement(bare, len(text))
    done, quotes, failed = 0, int(sentence.quoted), False
    for at, mention in enumerate(mentions):
        lead = text[done : mention.start]
        quotes += lead.count('"')
        until = mentions[at + 1].start if at + 1 < len(mentions) else len(text)
        opens = done == 0 and not sentence.in_form
        clause = Clause(lead, mention, text[mention.end : until], opens, lambda: _read_lines(sentence, lines))
        statement = _read_lead(clause, sentence, failed) if quotes % 2 == 0 else None
        if statement:
            yield statement
        elif casts_doubt(lead):
            return
        failed, done = statement is None, max(mention.end, statement.end if statement else 0)
        quotes += text.count('"', mention.start, done)


def _read_lines(sentence: Sentence, lines: Sequence[str]) -> tuple[list[tuple[int, str]], int]:
    """Return the ranks and values of the list on the lines after a sentence, and the line after it."""
    if not sentence.last:
        return [], 0
    block, ranked, next_line = read_block(lines, sentence.line + 1)
    after = lines[next_line] if next_line < len(lines) else ""
    if any(line.endswith("?") for line in block) or marks_joke(after):
        return [], 0
    return read_entries(block, ranked=ranked), next_line


def _read_lead(clause: Clause, sentence: Sentence, failed: bool) -> Statement | None:
    """Read a clause whose own words are all words before its mention, or only those after a separator."""
    lead = clause.own
    if failed and _JOINT.fullmatch(lead):
        return None  # "my favorite color and my favorite food are …"
    if not failed and (found := _read_own(clause, sentence)):
        return found
    for separator in list(_SEPARATOR.finditer(lead))[-_MAX_SEPARATORS:]:
        if casts_doubt(lead[: separator.start()]):
            return None
        if found := _read_own(replace(clause, own=lead[separator.end() :], opens=False), sentence):
            return found
    return None


def _read_own(clause: Clause, sentence: Sentence) -> Statement | None:
    """Read a clause. A question states nothing, unless it asks for a change or about another matter."""
    opened = strip_fillers(clause.own)
    clause = replace(clause, own=opened.rest)
    asked = sentence.text.rstrip("\"') ").endswith("?")
    if found := read_request(clause):
        return None if asked and not opened.asks else replace(found, corrects=True)
    direct = read_direct(clause)
    found = direct or read_inverted(clause)
    if found is None or (asked and not (opened.asks and direct) and not asks_further(sentence.text[found.end :])):
        return None
    return replace(found, corrects=opened.corrects)


def _read_also(sentence: Sentence, before: FactOperation | None) -> list[Statement]:
    """Read "Also purple." after a statement that stored values."""
    if before is None or before.op not in {"list", "append", "set", "put"} or sentence.joke or sentence.foreign:
        return []
    match = _ALSO.match(sentence.text)
    values = split_values(match["values"]) if match else []
    if not all(len(value.split()) <= 4 and _FUNCTION_WORDS.isdisjoint(value.split()) for value in values):
        return []
    made = FactOperation("append", before.topic_key, tuple((None, value) for value in values))
    return [Statement(made, len(sentence.text))] if values else []


def _settle_ranks(statements: Iterator[Statement], max_rank: int) -> Iterator[FactOperation]:
    """Yield the operations with valid ranks that no earlier statement of the message has taken."""
    taken: dict[str | None, set[int]] = {}
    for statement in statements:
        operation = statement.operation
        if operation is None:
            continue
        ranks = taken.setdefault(operation.topic_key, set())
        if statement.corrects or operation.op in {"remove", "swap"}:
            ranks.clear()
        if settled := _settle_one(operation, ranks, max_rank):
            yield settled


def _settle_one(operation: FactOperation, taken: set[int], max_rank: int) -> FactOperation | None:
    """Return an operation without ranks that are taken or invalid. Add its ranks to `taken`."""
    if operation.op == "swap":
        one, other = operation.ranks
        return operation if one != other and all(1 <= rank <= max_rank for rank in (one, other)) else None
    if operation.op == "remove":
        valid = tuple(rank for rank in operation.ranks if 1 <= rank <= max_rank)
        return replace(operation, ranks=valid) if valid or not operation.ranks else None
    if operation.op == "append":
        return replace(operation, entries=operation.entries[:max_rank])
    if operation.op == "set":
        if 1 in taken:
            return None
        taken.add(1)
        return operation
    pairs = first_ranks(((rank, value) for rank, value in operation.entries if rank not in taken and rank), max_rank)
    taken.update(rank for rank, _ in pairs)
    gapless = [rank for rank, _ in pairs] == list(range(1, len(pairs) + 1)) and len(pairs) > 1
    if not pairs:
        return None
    whole = operation.op == "list" and gapless
    return replace(operation, op="list" if whole else "put", entries=tuple(pairs))
