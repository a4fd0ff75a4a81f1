"""Retractions and corrections of stored facts: "I don't like teal anymore", "Actually, it's navy".

The rules are English. A message that they read completely removes or replaces a stored value. A message that touches a
stored value or topic with a negation, a change or a hedge, and is not read, puts the fact in doubt: the fact answers
nothing until it is stated again. What another person, a story or a quotation says touches nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from app.domain import english
from app.domain.facts.cleaning import clean_message
from app.domain.facts.fact import FactOperation, value_key
from app.domain.facts.look_alikes import hands_over_text, opens_fiction, tells_state
from app.domain.facts.mentions import find_mentions
from app.domain.facts.topics import FactTopics
from app.domain.facts.touches import has_cue, touched_topics
from app.domain.facts.values import cut_value, read_value

_FORMS: Final = english.forms("facts", "retractions")
_EN: Final = english.patterns("facts", "retractions")
_WORDS: Final = english.words("facts", "retractions")

READ: Final = 4000
"""The characters of a message that are read. A retraction stands in a short message."""
_LONGEST_TRAILING: Final = 60
"""The characters that the longest of the trailing words have, at least."""
MAX_KNOWN: Final = 200
"""The most stored facts that a message is compared with."""
_MAX_CORRECTION: Final = 160
_MAX_NEW_WORDS: Final = 6
_FUZZY: Final = 300
"""The longest message in which a misspelt value is recognised."""
_FUZZY_WORD: Final = 6
_MANY_SENTENCES: Final = 4


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A stored fact that a message may touch. `latest`: its thread's last statement, without a message after it."""

    thread_id: str | None
    topic_key: str
    rank: int | None
    value: str
    latest: bool = False


@dataclass(frozen=True, slots=True)
class ThreadOperation:
    """An operation on the facts of a thread."""

    thread_id: str | None
    operation: FactOperation


@dataclass(slots=True)
class _Reading:
    """A message with marks, and what was read of it so far."""

    values: list[list[KnownFact]] = field(default_factory=list)
    topics: list[str | None] = field(default_factory=list)
    gone: dict[KnownFact, None] = field(default_factory=dict)
    swapped: dict[KnownFact, str] = field(default_factory=dict)
    doubted: dict[KnownFact, None] = field(default_factory=dict)
    done: bool = False


def may_retract(text: str) -> bool:
    """Tell whether a message has a word of a negation, a change or a hedge. Any other message retracts nothing."""
    head = text[:READ].strip()
    if head[:1] == "*" or head[-1:] == "*":
        return True
    return has_cue(head) or _EN.foreign_negation.search(head) is not None


def read_retractions(
    text: str,
    known: Sequence[KnownFact],
    topics: FactTopics,
    stated: Sequence[FactOperation] = (),
    thread_id: str | None = None,
) -> list[ThreadOperation]:
    """Return what a message in a thread takes back, corrects or puts in doubt.

    `stated`: the operations of its statements and requests. Their topics in the message's own thread are read already.
    Linear in the message; compares at most MAX_KNOWN facts.
    """
    if not known or not may_retract(text):
        return []
    clean = _EN.quoted.sub('""', clean_message(text[:READ]))
    known = known[:MAX_KNOWN]
    reading = _Reading()
    sentences = list(_own_sentences(clean, known, topics, reading))
    whole = " ".join(sentence for sentence, _ in sentences)
    if len(sentences) > 1 and _is_short(whole) and not any(foreign for _, foreign in sentences):
        reading.done = not _EN.hedge.search(whole) and _read_swap(_EN.opening.sub("", whole), reading, topics)
    if not reading.done:
        for sentence, foreign in sentences:
            if not foreign:
                _read_sentence(sentence, reading, known, topics)
    if not reading.gone and not reading.swapped and _is_short(clean):
        _read_correction(clean, reading, known, topics, stated)
    if not reading.done:
        _read_afterthought(clean, reading, known)
    if not (reading.gone or reading.swapped or reading.doubted):
        raw = [one for one in _EN.sentence.findall(clean) if one.strip()]
        own = [" ".join(one.split()) for one, (_, foreign) in zip(raw, sentences, strict=True) if not foreign]
        touched = touched_topics(own, {fact.topic_key for fact in known}, topics)
        reading.doubted.update(dict.fromkeys(fact for fact in known if fact.topic_key in touched))
    return list(_operations_of(reading, stated, thread_id))


def _is_short(clean: str) -> bool:
    return len(clean) <= _MAX_CORRECTION


def _own_sentences(
    clean: str, known: Sequence[KnownFact], topics: FactTopics, reading: _Reading
) -> Iterator[tuple[str, bool]]:
    """Yield the sentences with marks, and whether each belongs to a story, a text to work on or another person."""
    foreign = False
    by_key = _group_values(known)
    for match in _EN.sentence.finditer(clean):
        sentence = " ".join(match[0].split())
        if not sentence:
            continue
        foreign = foreign or opens_fiction(sentence) or hands_over_text(sentence)
        marked = _mark_topics(_mark_values(sentence, by_key, reading, len(clean) <= _FUZZY), topics, reading, known)
        yield marked, foreign or _is_of_another(marked, sentence)


def _group_values(known: Sequence[KnownFact]) -> dict[str, list[KnownFact]]:
    """Return the facts by the words of their value, longest first."""
    groups: dict[str, list[KnownFact]] = {}
    for fact in known:
        bare = _EN.article.sub("", fact.value, count=1) if _EN.article.match(fact.value) else fact.value
        groups.setdefault(value_key(bare), []).append(fact)
    return dict(sorted(groups.items(), key=lambda item: -len(item[0])))


def _mark_values(sentence: str, by_key: dict[str, list[KnownFact]], reading: _Reading, fuzzy: bool) -> str:
    """Replace the values that a sentence names by marks."""
    low = sentence.casefold()
    if len(low) != len(sentence):
        sentence = low
    spans: list[tuple[int, int, list[KnownFact]]] = []
    taken = bytearray(len(low))
    for key, facts in by_key.items():
        at = low.find(key)
        while at >= 0:
            end = at + len(key)
            if _is_word(low, at, end) and taken.find(1, at, end) < 0:
                spans.append((at, end, facts))
                taken[at:end] = b"\x01" * len(key)
            at = low.find(key, end)
    if not spans and fuzzy:
        spans = list(_misspelt(low, by_key))
    parts = []
    at = 0
    for start, end, facts in sorted(spans, key=lambda span: span[0]):
        reading.values.append(facts)
        parts += [sentence[at:start], f"\x01{len(reading.values) - 1}\x01"]
        at = end
    return "".join((*parts, sentence[at:]))


def _is_word(text: str, start: int, end: int) -> bool:
    before = text[start - 1 : start]
    after = text[end : end + 1]
    return not (before.isalnum() and text[start].isalnum()) and not (after.isalnum() and text[end - 1].isalnum())


def _misspelt(low: str, by_key: dict[str, list[KnownFact]]) -> Iterator[tuple[int, int, list[KnownFact]]]:
    """Yield the place of a value of one long word that is misspelt by one letter, the first one."""
    words = [match for match in _EN.token.finditer(low) if len(match[0]) >= _FUZZY_WORD - 1]
    for key, facts in by_key.items():
        if len(key) < _FUZZY_WORD or not key.isalpha():
            continue
        for word in words:
            if word[0][0] == key[0] and abs(len(word[0]) - len(key)) <= 1 and _differ_by_one(word[0], key):
                yield word.start(), word.end(), facts
                return


def _differ_by_one(left: str, right: str) -> bool:
    """Tell whether one letter added, lost, changed or two swapped make one word the other. A plural is another word."""
    at = next((n for n, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        return False
    one = left[at:]
    other = right[at:]
    return (
        one[1:] == other
        or one == other[1:]
        or one[1:] == other[1:]
        or (one[1::-1] == other[:2] and one[2:] == other[2:])
    )


def _mark_topics(sentence: str, topics: FactTopics, reading: _Reading, known: Sequence[KnownFact]) -> str:
    """Replace "my favorite color" by a mark. A later message may also name it as "the color thing"."""
    parts = []
    at = 0
    for mention in find_mentions(sentence, topics):
        if mention.topic is None and mention.noun and not mention.favorite:
            continue
        if mention.topic is None and not mention.favorite:
            continue
        reading.topics.append(mention.topic)
        parts += [sentence[at : mention.start], f"\x02{len(reading.topics) - 1}\x02"]
        at = mention.end
    marked = "".join((*parts, sentence[at:]))
    stored = {fact.topic_key for fact in known}
    for loose in _EN.loose_topic.finditer(marked):
        noun = (loose["noun"] or loose["thing"] or loose["group"]).casefold().split()
        found = next((key for n in (noun, noun[:1]) if (key := topics.find_topic(n)) in stored), None)
        if found:
            reading.topics.append(found)
            return f"{marked[: loose.end()]} \x02{len(reading.topics) - 1}\x02{marked[loose.end() :]}"
    return marked


def _is_of_another(marked: str, sentence: str) -> bool:
    """Tell whether a sentence tells of another person before it names a value or a topic of the user."""
    mark = _EN.mark.search(marked)
    lead = marked[: mark.start()] if mark else marked
    if person := _EN.other_person.search(lead):
        own = _EN.own.search(lead, person.end())
        return own is None or _EN.reports.search(lead, person.end(), own.start()) is not None
    name = _EN.other_name.match(marked)
    if name is None or name["name"] == "I" or mark is None:
        return False
    return _EN.reports.search(name[0]) is not None or not _EN.own.search(sentence)


def _read_sentence(marked: str, reading: _Reading, known: Sequence[KnownFact], topics: FactTopics) -> None:
    """Read the first form that a sentence has, else note what it puts in doubt."""
    if _EN.denied.search(marked):
        _doubt_marks(marked, reading, known)
        return
    if not _EN.mark.search(marked) or _EN.stays.search(marked):
        return
    if "\x02" not in marked and _EN.other_task.match(marked):
        return
    text = _EN.opening.sub("", marked)
    asks = marked.rstrip().endswith("?")
    hedges = _EN.hedge.search(text) is not None
    readable = not hedges and (not asks or _EN.asks_for.match(text) is not None)
    if readable and (_read_swap(text, reading, topics) or _read_removal(text, reading, known)):
        reading.done = True
    elif _casts_doubt(marked, asks=asks, hedges=hedges):
        _doubt_marks(marked, reading, known)


def _casts_doubt(marked: str, *, asks: bool, hedges: bool) -> bool:
    """Tell whether a sentence that was not read puts in doubt what it names. A plain question does not."""
    if _EN.foreign_negation.search(marked):
        return True
    if asks and "\x01" in marked and (hedges or ("\x02" in marked and _EN.asked_doubt.search(marked))):
        return True
    return (hedges or not asks) and has_cue(_EN.mark.sub(" ", marked))


def _read_swap(text: str, reading: _Reading, topics: FactTopics) -> bool:
    for pattern in _FORMS.swapped_value:
        if (found := pattern.search(text)) is None:
            continue
        facts = reading.values[int(found["value"])]
        own = _facts_of_topic(text, reading, facts)
        value = _new_value(_EN.mark.sub(_unmark(reading), found["new"]), facts[0].topic_key, topics)
        if value is None or not own or value_key(value) == value_key(facts[0].value):
            continue
        if pattern.pattern.startswith(r"\b(?:i've") and not _EN.names_topic.search(text):
            return False  # a drink of the moment need not be the favorite
        reading.swapped.update(dict.fromkeys(own, value))
        return True
    return False


def _unmark(reading: _Reading) -> Callable[[re.Match[str]], str]:
    """Return a function that gives back the words of a mark."""

    def restore(match: re.Match[str]) -> str:
        number = int(match[1])
        return reading.values[number][0].value if match[0][0] == "\x01" else "my favorite"

    return restore


def _read_removal(text: str, reading: _Reading, known: Sequence[KnownFact]) -> bool:
    for pattern in _FORMS.gone_value:
        if found := pattern.search(text):
            named = [int(found["value"]), *_joined_values(text, found.end("value") + 1)]
            own = _facts_of_topic(text, reading, [fact for at in named for fact in reading.values[at]])
            if "\x02" in found[0] and any(fact.rank not in (None, 1) for fact in own):
                return False  # "my favorite color isn't blue" need not remove blue from a list
            reading.gone.update(dict.fromkeys(own))
            return bool(own)
    for pattern in _FORMS.gone_topic:
        if found := pattern.search(text):
            topic = reading.topics[int(found["topic"])]
            own = [fact for fact in known if fact.topic_key == topic]
            reading.gone.update(dict.fromkeys(own))
            return bool(own)
    return False


def _joined_values(text: str, at: int) -> Iterator[int]:
    """Yield the numbers of the values that "or" or "and" joins to the one before `at`: "I don't like A or B"."""
    while joined := _EN.joined_value.match(text, at):
        yield int(joined["value"])
        at = joined.end()


def _facts_of_topic(text: str, reading: _Reading, facts: Iterable[KnownFact]) -> list[KnownFact]:
    """Return the facts of the topics that a sentence names; all of them if it names none."""
    named = {reading.topics[int(mark[1])] for mark in _EN.mark.finditer(text) if mark[0][0] == "\x02"} - {None}
    return [fact for fact in facts if fact.topic_key in named] if named else list(facts)


def _doubt_marks(marked: str, reading: _Reading, known: Sequence[KnownFact]) -> None:
    """Put in doubt the values that a sentence names, or all values of a topic that it names without one."""
    named = [reading.values[int(mark[1])] for mark in _EN.mark.finditer(marked) if mark[0][0] == "\x01"]
    facts = dict.fromkeys(fact for group in named for fact in group)
    reading.doubted.update(dict.fromkeys(_facts_of_topic(marked, reading, facts)))
    if not named and not _EN.other_value.search(marked):
        topics = {reading.topics[int(mark[1])] for mark in _EN.mark.finditer(marked)}
        reading.doubted.update(dict.fromkeys(fact for fact in known if fact.topic_key in topics))


def _read_afterthought(clean: str, reading: _Reading, known: Sequence[KnownFact]) -> None:
    """Put in doubt what a short message names in one sentence and takes back in another: "Titanic? I doubt it."."""
    sentences = [one for one in _EN.sentence.findall(clean) if one.strip()]
    if len(sentences) > _MANY_SENTENCES or _EN.stays.search(clean):
        return
    if _EN.all_doubted.search(clean):
        reading.doubted.update(dict.fromkeys(known))
    if _EN.afterthought.search(clean):
        for facts in reading.values:
            reading.doubted.update(dict.fromkeys(facts))
    if not reading.values and not any(reading.topics) and _EN.latest_doubted.search(clean):
        reading.doubted.update(dict.fromkeys(fact for fact in known if fact.latest))


def _read_correction(
    clean: str,
    reading: _Reading,
    known: Sequence[KnownFact],
    topics: FactTopics,
    stated: Sequence[FactOperation],
) -> None:
    """Read "Actually, it's navy.", which corrects what the message before it stated, or names its topic."""
    line = " ".join(clean.split())
    rest, corrects = _strip_openers(line)
    if not corrects and (marked := _EN.marked_correction.match(line)):
        rest = marked["before"] or marked["after"] or marked["said"]
        corrects = True
    if not corrects or stated or not rest or rest.endswith("?"):
        return
    rest = rest.removeprefix("that ")
    mention = next(iter(find_mentions(rest, topics)), None)
    if mention is not None and mention.topic is not None:
        after = re.match(r" (?:is|are|=|:|was supposed to be|should be) ?(?P<new>.+)", rest[mention.end :])
        facts = [fact for fact in known if fact.topic_key == mention.topic] if mention.start == 0 else []
        new = _new_value(after["new"], mention.topic, topics) if after and facts else None
        if new is not None and len(facts) == 1:
            reading.swapped[facts[0]] = new
            return
    latest = [fact for fact in known if fact.latest]
    keys = {fact.topic_key for fact in latest}
    named = [key for sentence in _EN.sentence.findall(rest)[1:] if (key := _topic_of(sentence, topics))]
    if named:
        latest = [fact for fact in known if fact.topic_key == named[0]]
        keys = {fact.topic_key for fact in latest}
    copula = _EN.copula.match(rest)
    body = rest[copula.end() if copula else 0 :]
    first = _EN.sentence.match(body)
    if len(keys) != 1 or first is None or (first.end() < len(body) and not named):
        return
    topic = next(iter(keys))
    new = _new_value(first[0], topic, topics)
    if new is None:
        return
    if len(latest) == 1:
        if value_key(new) != value_key(latest[0].value):
            reading.swapped[latest[0]] = new
            reading.done = True
    else:
        reading.doubted.update(dict.fromkeys(latest))


def _topic_of(sentence: str, topics: FactTopics) -> str | None:
    return next((mention.topic for mention in find_mentions(sentence.strip(), topics) if mention.topic), None)


def _strip_openers(text: str) -> tuple[str, bool]:
    """Return a message without the words that open a correction, and whether one of them corrects."""
    at = 0
    corrects = False
    while True:
        found = _EN.corrects.match(text, at)
        if found:
            corrects = True
        else:
            found = _EN.opener.match(text, at)
        if found is None or found.end() == at:
            return text[at:].lstrip(" ,.:;!…–—-/"), corrects
        at = found.end()


def _without_trailing(text: str) -> str:
    """Return the words without those at the end that name nothing ("instead", "sorry")."""
    end = len(text)
    while trailing := _EN.trailing.search(text, max(0, end - _LONGEST_TRAILING), end):
        end = trailing.start()
    return text[:end]


def _new_value(words: str, topic: str, topics: FactTopics) -> str | None:
    """Return the value that words name, or None if they may say something else."""
    text = _EN.mark.sub(" ", _without_trailing(words.strip())).strip(" ,.!;:-–—")
    text = (
        re.split(r",? (?:so|because|since|cause|and|but|which|that|though|as) (?=\S)|, ", text, maxsplit=1)[0] or text
    )
    value, rest = cut_value(text)
    value = read_value(value) or ""
    bare = _EN.article.sub("", value, count=1) if value[:4].casefold() in ("the ", "a", "an ") else value
    if not value or rest.strip(" ,.!") or len(value.split()) > _MAX_NEW_WORDS or _EN.no_name.match(bare):
        return None
    if value.islower() and _EN.points.search(value):
        return None
    return None if tells_state(value, topics.singular_name(topic).split()[1:]) else value


def _operations_of(
    reading: _Reading, stated: Sequence[FactOperation], thread_id: str | None
) -> Iterator[ThreadOperation]:
    """Yield the operations. A value that the message itself states is in no doubt."""
    read = {operation.topic_key for operation in stated}
    restated = {operation.topic_key for operation in stated if operation.op != "remove"}
    for fact in reading.gone:
        if not _is_requested(fact, stated, thread_id):
            yield _operation("remove", fact, fact.value)
    for fact, value in reading.swapped.items():
        if fact in reading.gone or fact.topic_key in restated:
            continue
        op = FactOperation("set" if fact.rank is None else "put", fact.topic_key, ((fact.rank, value),))
        yield ThreadOperation(fact.thread_id, op)
    for fact in reading.doubted:
        if fact not in reading.gone and fact not in reading.swapped and fact.topic_key not in read:
            yield _operation("doubt", fact, fact.value)


def _is_requested(fact: KnownFact, stated: Sequence[FactOperation], thread_id: str | None) -> bool:
    """Tell whether a request of the message has decided about a fact: "Remove my third favorite color."."""
    for operation in stated:
        if operation.topic_key not in (None, fact.topic_key) or operation.op in {"set", "put", "list", "append"}:
            continue
        if operation.ranks or operation.topic_key is None or fact.thread_id == thread_id:
            return True
    return False


def _operation(op: str, fact: KnownFact, value: str) -> ThreadOperation:
    made = FactOperation("remove", fact.topic_key, ((None, value),))
    return ThreadOperation(fact.thread_id, made if op == "remove" else replace(made, op="doubt"))


def is_taken_back(operation: FactOperation, retracted: Sequence[ThreadOperation]) -> bool:
    """Tell whether a statement of a message puts back just what the message retracts: "Forget that my … is Dune."."""
    gone = {
        (one.operation.topic_key, value_key(value))
        for one in retracted
        if one.operation.op == "remove"
        for _, value in one.operation.entries
    }
    return operation.op in {"set", "put", "list", "append"} and any(
        (operation.topic_key, value_key(value)) in gone for _, value in operation.entries
    )
