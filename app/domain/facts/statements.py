"""Statements of a user about favorites, and what each does to the stored facts.

The words are English. A doubt means "no": a fact that is not stored can be stated again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from app.domain import english
from app.domain.facts.clauses import Clause, Statement, read_direct, read_forgetting, read_inverted
from app.domain.facts.cleaning import clean_message
from app.domain.facts.fact import FactOperation
from app.domain.facts.fillers import is_blank, strip_fillers
from app.domain.facts.look_alikes import (
    asks_further,
    casts_doubt,
    find_doubt,
    is_given_text,
    marks_joke,
    takes_back,
    tells_state,
)
from app.domain.facts.mentions import Mention, find_mentions
from app.domain.facts.ranked_lists import MAX_RANK, first_ranks
from app.domain.facts.requests import read_bare_request, read_request
from app.domain.facts.sentences import (
    Sentence,
    rank_of_line,
    read_block,
    read_entries,
    read_enumeration,
    read_lines_before,
    read_plain_lines,
    split_message,
)
from app.domain.facts.topics import READ_LIMIT, FactTopics
from app.domain.facts.values import read_value, split_values

_EN: Final = english.patterns("facts", "statements")
_WORDS: Final = english.words("facts", "statements")

_MAX_UNSAID: Final = 300
_MAX_LEAD: Final = 1000
_MAX_ABOUT: Final = 60
_ANY_THING: Final = ("thing",)
_MAX_SEPARATORS: Final = 8


def read_statements(text: str, topics: FactTopics, max_rank: int = MAX_RANK) -> tuple[FactOperation, ...]:
    """Return what a user's message does to stored facts, in order. Linear; reads the first READ_LIMIT characters.

    Ranks outside 1 to `max_rank` are ignored. Of two values at one rank of a topic the first wins, unless the second
    corrects it ("actually …").
    """
    if not _EN.hint.search(text, 0, READ_LIMIT):
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
    next_line = 0
    before = None
    topic = None
    asked = None
    for at, sentence in enumerate(sentences):
        if sentence.line < next_line:
            continue
        also = _read_also(sentence, before)
        if asked and (answer := _read_answer(sentence, lines, sentences[at - 1], asked)):
            also = [answer]
        before = None
        asked = None
        if at + 1 < len(sentences) and takes_back(sentences[at + 1].text):
            continue
        previous = sentences[at - 1] if at else None
        for statement in also or read_sentence(sentence, lines, topics, topic, previous):
            next_line = max(next_line, statement.next_line)
            if statement.operation:
                before = statement.operation
                topic = statement.operation.topic_key
                yield statement
        if before is None:
            asked = _pending_mention(sentence, topics)


def read_sentence(
    sentence: Sentence,
    lines: Sequence[str],
    topics: FactTopics,
    topic: str | None = None,
    before: Sentence | None = None,
) -> Iterator[Statement]:
    """Yield the statements of a sentence, in order. The lists on the lines after it belong to it.

    `topic` is the topic that the message stated last, `before` the sentence before this one.
    """
    if sentence.foreign or sentence.joke:
        return
    text = sentence.text
    mentions = list(find_mentions(text, topics, continued=True)) if _EN.mentioned.search(text) else []
    if not mentions and not sentence.quoted and (bare := read_bare_request(text)):
        yield Statement(bare, len(text))
    done = 0
    quotes = int(sentence.quoted)
    failed = False
    for at, mention in enumerate(mentions):
        if mention.elliptic:
            noun = _last_noun(text[done : mention.start], topics)
            mention = replace(mention, topic=noun or topic, noun=())
        lead = text[done : mention.start]
        quotes += lead.count('"')
        until = mentions[at + 1].start if at + 1 < len(mentions) else len(text)
        opens = done == 0 and not sentence.in_form
        clause = Clause(
            own=lead,
            mention=mention,
            after=text[mention.end : until],
            opens=opens,
            read_block=lambda: _read_lines(sentence, lines),
            read_before=lambda: _read_before(sentence, lines, before),
            rank=rank_of_line(lines[sentence.line]),
        )
        statement = _read_lead(clause, sentence, failed) if quotes % 2 == 0 else None
        if statement and statement.operation:
            topic = statement.operation.topic_key
        if statement:
            yield statement
            for operation in statement.further:
                yield replace(statement, operation=operation, further=())
        elif casts_doubt(lead):
            return
        failed = statement is None
        done = max(mention.end, statement.end if statement else 0)
        quotes += text.count('"', mention.start, done)


def _last_noun(lead: str, topics: FactTopics) -> str | None:
    """Return the canonical topic that words before "my favorite is" name: "as for songs, my favorite is …"."""
    match = _EN.about.search(lead[-_MAX_ABOUT:])
    return topics.find_canonical(match["noun"].lower().split()) if match else None


def _read_lines(sentence: Sentence, lines: Sequence[str]) -> tuple[list[tuple[int, str]], int]:
    """Return the ranks and values of the list on the lines after a sentence, and the line after it."""
    if not sentence.last:
        return [], 0
    block, ranked, next_line = read_block(lines, sentence.line + 1)
    if not block:
        return _read_plain(sentence, lines)
    after = lines[next_line] if next_line < len(lines) else ""
    if any(line.endswith("?") for line in block) or marks_joke(after):
        return [], 0
    return read_entries(block, ranked=ranked), next_line


def _read_plain(sentence: Sentence, lines: Sequence[str]) -> tuple[list[tuple[int, str]], int]:
    """Return the values on the lines after a sentence that have no mark. One blank line may follow a colon.

    One line alone is a value only if the sentence ends within its enumeration.
    """
    start = sentence.line + 1
    if (
        sentence.text.endswith((":", " are", " is", " follows", " following"))
        and start < len(lines)
        and not lines[start]
    ):
        start += 1
    found, next_line = read_plain_lines(lines, start)
    goes_on = sentence.text.endswith((",", " and", "&"))
    alone = sentence.text.endswith((" is", ":", "'s")) and not "".join(lines[start + 1 : start + 2])
    return (found, next_line) if len(found) > 1 or (found and (goes_on or alone)) else ([], 0)


def _read_before(sentence: Sentence, lines: Sequence[str], before: Sentence | None) -> list[tuple[int, str]]:
    """Return the ranks and values of the list on the lines before a sentence, or in the sentence before it."""
    if before and before.line == sentence.line:
        text = before.text.rstrip(" .!")
        return list(enumerate(read_enumeration(text), 1)) if not before.joke and not before.foreign else []
    return read_lines_before(lines, sentence.line)


def _read_lead(clause: Clause, sentence: Sentence, failed: bool) -> Statement | None:
    """Read a clause whose own words are all words before its mention, or only those after a separator."""
    lead = clause.own
    if failed and _EN.joint.fullmatch(lead):
        return None  # "my favorite color and my favorite food are …"
    if not failed and (found := _read_own(clause, sentence)):
        return found
    doubt = find_doubt(lead)
    for separator in list(_EN.separator.finditer(lead))[-_MAX_SEPARATORS:]:
        if doubt is not None and doubt <= separator.start():
            return None
        if separator["colon"] and not _goes_on(lead[: separator.start()]):
            continue
        if found := _read_own(replace(clause, own=lead[separator.end() :], opens=False), sentence):
            return found
    return None


def _goes_on(words: str) -> bool:
    """Tell whether the text after a colon is the user's own words, and no text to work on."""
    return len(words) < _MAX_LEAD and _EN.own_words.fullmatch(words.strip()) is not None and not is_given_text(words)


def _read_own(clause: Clause, sentence: Sentence) -> Statement | None:
    """Read a clause. A question states nothing, unless it asks for a change or about another matter."""
    opened = strip_fillers(clause.own)
    clause = replace(clause, own=opened.rest)
    asked = sentence.text.rstrip("\"') ").endswith("?")
    if found := read_forgetting(clause) or read_request(clause):
        return None if asked and not opened.asks else replace(found, corrects=True)
    direct = read_direct(clause)
    found = direct or read_inverted(clause)
    if found and clause.mention.elliptic and not _may_lack_topic(clause, found, opened.corrects):
        return None
    if found is None or (asked and not (opened.asks and direct) and not asks_further(sentence.text[found.end :])):
        return None
    return replace(found, corrects=opened.corrects)


def _may_lack_topic(clause: Clause, found: Statement, corrects: bool) -> bool:
    """Tell whether a statement without a noun may be about the topic that the thread stated last.

    It corrects something and nothing follows: "Actually, my second is blue.", "My second isn't red, it's blue.".
    """
    if clause.mention.topic or not found.operation:
        return True
    ends = not clause.after[found.end - clause.mention.end :].strip(" .!")
    if any(tells_state(value, _ANY_THING) for _, value in found.operation.entries):
        return False
    return ends and (corrects or found.operation.op == "replace")


def _pending_mention(sentence: Sentence, topics: FactTopics) -> Mention | None:
    """Return the favorite that a sentence names without a value: "My favorite color?", "I have two favorites."."""
    if sentence.joke or sentence.foreign or sentence.quoted or not _EN.mentioned.search(sentence.text):
        return None
    if len(sentence.text) > _MAX_UNSAID or not sentence.text.endswith(("?", ".", "!", "…")):
        return None
    mention = next(iter(list(find_mentions(sentence.text, topics))[-1:]), None)
    if not mention or not mention.topic or mention.owner not in {"my", "have", ""} or mention.elliptic:
        return None
    lead = sentence.text[: mention.start]
    after = sentence.text[mention.end :]
    return mention if is_blank(strip_fillers(lead).rest) and _EN.unsaid.fullmatch(after) else None


def _read_answer(sentence: Sentence, lines: Sequence[str], asked: Sentence, mention: Mention) -> Statement | None:
    """Read "Green." after "My favorite color?", and "They are red and blue." after "I have two favorite colors."."""
    match = _EN.answer.match(sentence.text)
    if not match or sentence.joke or sentence.foreign or sentence.line > asked.line + 1:
        return None
    question = asked.text.endswith("?")
    lined, next_line = read_plain_lines(lines, sentence.line) if sentence.line > asked.line else ([], 0)
    if question and mention.plural and len(lined) > 1:
        return Statement(FactOperation("list", mention.topic, tuple(lined)), len(sentence.text), next_line)
    named = read_enumeration(match["values"].rstrip(" .!"))
    counted = mention.owner == "have" and len(named) == mention.count
    if not match["pronoun"] and not counted and (not question or not read_enumeration(f"{match['values']}, x")):
        return None
    if not match["pronoun"] and read_value(match["values"][0].lower() + match["values"][1:]) is None:
        return None
    owned = replace(mention, owner="my", count=None)
    after = f" {'is' if not mention.plural else 'are'} {match['values']}"
    return read_direct(Clause("", owned, after, True, lambda: ([], 0)))


def _read_also(sentence: Sentence, before: FactOperation | None) -> list[Statement]:
    """Read "Also purple." after a statement that stored values."""
    if before is None or before.op not in {"list", "append", "set", "put"} or sentence.joke or sentence.foreign:
        return []
    match = _EN.also.match(sentence.text)
    values = split_values(match["values"]) if match else []
    if not all(len(value.split()) <= 4 and _WORDS.function_words.isdisjoint(value.split()) for value in values):
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
        if statement.corrects or operation.op in _WORDS.overruling:
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
    if operation.op == "replace":
        return operation
    if operation.op in {"insert", "move"}:
        rank = operation.entries[0][0]
        return operation if rank is None or 1 <= rank <= max_rank else None
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
