"""Questions for stored favorites: "what's my second favorite color?", "list my favorite movies", "what was #3?".

A question is answered only if the grammar here reads all of it. Everything else falls through to search.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from app.domain import english
from app.domain.facts.cleaning import clean_message
from app.domain.facts.fact import FactOperation, QuestionPart
from app.domain.facts.mentions import Mention, find_mentions
from app.domain.facts.nouns import has_one_form, is_plural, read_noun
from app.domain.facts.phrases import to_rank
from app.domain.facts.spelling import QUESTION_WORDS, find_slip, normalize_spelling
from app.domain.facts.statements import read_statements
from app.domain.facts.topics import FactTopics
from app.domain.near_names import slip_forms
from app.domain.text_rules import sentence_ends

_EN: Final = english.patterns("facts", "questions")
_WORDS: Final = english.words("facts", "questions")

MAX_QUESTION: Final = 600
"""The longest text in characters that is read as a question. A longer one tells or asks more than a rank or a list."""
_RAW_FACTOR: Final = 4
"""The factor by which a text may exceed its limit before it is cleaned."""
_REQUEST_FORMS: Final = {word: slip_forms(word) for word in ("list", "show", "tell", "remind", "give", "name")}
"""The words that open a request, with their typos."""

Kind = Literal["rank", "list", "slice", "first"]


def parse_question(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Return what a text asks of stored facts; nothing if it asks anything else.

    A text longer than four times MAX_QUESTION is no question. Linear.
    """
    if len(text) > _RAW_FACTOR * MAX_QUESTION or not _EN.hint.search(text):
        return ()
    parts: list[QuestionPart] = []
    for sentence in _split_question(clean_message(text)):
        found = _read_sentence(_strip_opening(sentence), topics)
        parts.extend(found)
        told = (_EN.told_after if parts else _EN.told_before).match(sentence)
        if not found and (not told or _EN.demand.search(sentence)):
            return ()
    return tuple(parts)


def read_stated(
    text: str, topics: FactTopics, max_rank: int, parts: Sequence[QuestionPart] | None = None
) -> tuple[FactOperation, ...]:
    """Return what a message states: `read_statements`, but nothing for a question of one sentence. Linear.

    `parts` is the result of `parse_question` for the text, None if it was not called yet.
    """
    if parts is not None:
        return () if parts and _is_one_sentence(text) else read_statements(text, topics, max_rank)
    # most messages state nothing, and then it does not matter whether they ask
    stated = read_statements(text, topics, max_rank)
    return () if stated and parse_question(text, topics) and _is_one_sentence(text) else stated


def _is_one_sentence(text: str) -> bool:
    return len(_split_question(clean_message(text))) == 1


def _read_sentence(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Return what a sentence without its opening asks for."""
    for reader in (_read_favorites, _read_choice, _read_liked, _read_top):
        if found := reader(text, topics):
            return found
    return _read_topicless(text)


def _split_question(clean: str) -> list[str]:
    """Return the sentences of a text without thanks at its end; nothing if the text is long."""
    if len(clean) > MAX_QUESTION:
        return []
    line = normalize_spelling(" ".join(clean.replace("**", "").replace("`", "").split()))
    ends = sentence_ends(line)
    pieces = [line[start:end].strip() for start, end in zip([0, *ends], [*ends, len(line)], strict=True)]
    pieces = [piece for piece in pieces if piece]
    while len(pieces) > 1 and (_EN.greeting.fullmatch(pieces[0]) or not _EN.word.search(pieces[0])):
        del pieces[0]
    if len(pieces) > 2 and _EN.filler.fullmatch(pieces[0]) and _EN.greeting.fullmatch(pieces[1]):
        del pieces[:2]
    while len(pieces) > 1 and _EN.thanks.fullmatch(pieces[-1]):
        del pieces[-1]
    return pieces


def _strip_opening(question: str) -> str:
    """Return a question without greetings and fillers at its start."""
    at = 0
    while match := (_EN.name_call.match(question, at) or _EN.filler.match(question, at)):
        at = match.end()
    first = _EN.first_word.match(question, at)
    word = first[0].lower() if first else ""
    meant = QUESTION_WORDS.get(word) or (find_slip(word, _REQUEST_FORMS) if word else None)
    return f"{meant}{question[first.end() :]}" if first and meant else question[at:]


def _match_ask(text: str) -> re.Match[str] | None:
    """Return the words that ask at the start of a sentence; None for a name before its verb."""
    ask = _EN.ask.match(text)
    return None if ask and _EN.subject.match(ask[0]) else ask


def _read_favorites(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Read a request for favorites with their topics: "what are my favorite colors and my favorite foods?"."""
    ask = _match_ask(text)
    end = ask.end() if ask else 0
    mentions = [mention for mention in find_mentions(text, topics) if mention.owner == "my"]
    if not mentions:
        own = _EN.own_favorite.match(text[end:].lstrip()) if not ask or ask["request"] else None
        if own and not text[end:].lstrip().lower().startswith("my "):
            return _read_favorites(f"{text[:end]} my {text[end:].lstrip()}".lstrip(), topics)
        return _read_own_list(text[end:], topics) if ask and ask["request"] else ()
    one = bool(ask and _EN.singular_verb.search(ask[0]))
    plural = bool(ask and (_EN.list_word.search(ask[0]) or (len(mentions) == 1 and _EN.plural_verb.search(ask[0]))))
    parts: list[QuestionPart] = []
    for at, mention in enumerate(mentions):
        between = text[end : mention.start].strip()
        place = _EN.in_list.match(between) if at == 0 and between else None
        joined = (
            place or not between or _EN.of_list.fullmatch(between) if at == 0 else _EN.and_before_my.fullmatch(between)
        )
        if not joined or mention.topic is None:
            return ()
        if place and place["count"]:
            parts.append(QuestionPart("slice", mention.topic, to_rank(place["count"])))
            end = mention.end
            continue
        ranks = (to_rank(place["rank"] or "1st"),) if place else mention.ranks
        plural = plural or between.lower() == "on" or (has_one_form(mention.noun[-1]) and not one)
        parts.extend(_make_parts(mention, mention.topic, ranks, plural))
        further, end = _read_further(text, mention, topics)
        parts.extend(further)
    return tuple(parts) if _EN.tail.match(text, end) else ()


def _make_parts(mention: Mention, topic: str, ranks: Sequence[int], plural: bool) -> list[QuestionPart]:
    """Return what a mention asks for."""
    if ranks:
        return [QuestionPart("rank", topic, rank) for rank in ranks]
    if mention.count is not None:
        return [QuestionPart("slice", topic, mention.count)]
    return [QuestionPart("list" if mention.plural or plural else "first", topic)]


def _read_further(text: str, mention: Mention, topics: FactTopics) -> tuple[list[QuestionPart], int]:
    """Return the topics that follow a mention without "my", and where they end: "… and favorite states"."""
    parts: list[QuestionPart] = []
    end = mention.end
    while (joint := _EN.and_word.match(text, end)) and (opened := _EN.without_my.match(text, joint.end())):
        noun, noun_end = read_noun(text, opened.end())
        topic = topics.find_topic(noun) if opened["favorite"] or mention.favorite else topics.find_canonical(noun)
        if not opened["favorite"] and noun and noun[-1] in _WORDS.personal:
            break
        if topic is None or mention.count is not None or (opened["rank"] and not opened["favorite"]):
            break
        rank = to_rank(opened["rank"]) if opened["rank"] else None
        parts.append(QuestionPart(_kind_of(noun, rank), topic, rank))
        end = noun_end
    return parts, end


def _kind_of(noun: Sequence[str], rank: int | None) -> Kind:
    """Return what a noun asks for: a plural noun asks for all values."""
    if rank is not None:
        return "rank"
    return "list" if is_plural(noun[-1]) else "first"


def _read_own_list(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Read "list my colors": a canonical topic in plural without the word favorite."""
    if not (opened := _EN.own.match(text)):
        return ()
    noun, end = read_noun(text, opened.end())
    topic = topics.find_canonical(noun)
    return (QuestionPart("list", topic),) if topic and is_plural(noun[-1]) and _EN.tail.match(text, end) else ()


def _read_top(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Read "top 2 movies?" and "what's my top color": a canonical topic without the word favorite."""
    ask = _match_ask(text)
    text = text[ask.end() :].lstrip() if ask else text
    opened = _EN.bare_top.match(text) or _EN.my_top.match(text) or _EN.my_best.match(text)
    opened = opened or _EN.on_list.match(text) or _EN.bare_rank.match(text)
    if not opened:
        return ()
    noun, end = read_noun(text, opened.end())
    topic = topics.find_canonical(noun)
    if not topic or not _EN.tail.match(text, end):
        return ()
    if opened.re is _EN.bare_top:
        own = "?" in text[end:] or " of mine" in text[end:]
        return (QuestionPart("slice", topic, to_rank(opened["count"])),) if own and not ask else ()
    if "rank" in opened.re.groupindex:
        return (QuestionPart("rank", topic, to_rank(opened["rank"])),)
    return (QuestionPart(_kind_of(noun, None), topic),)


def _read_choice(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Read "which movie is my third favorite?" and "which of my favorite movies is number two?"."""
    match = _EN.choice.match(_EN.tell_me.sub("", text.rstrip(" ?.!")))
    if not match:
        return ()
    noun, end = read_noun(match["noun"], 0)
    own = _EN.my_rank.match(match["what"])
    place = own or (_EN.its_rank.match(match["what"]) if match["favorite"] else None)
    plain = noun and end == len(match["noun"]) and not _EN.counted.match(noun[0])
    mine = None if place else _EN.rank_for_me.match(match["what"])
    topic = None if not plain else topics.find_canonical(noun) if mine else topics.find_topic(noun)
    if not topic or not (place or mine):
        return ()
    words = mine["rank"] or mine["place"] if mine else place["rank"] if place else None
    rank = to_rank(words) or 1 if words else None
    return (QuestionPart(_kind_of(noun, rank), topic, rank),)


def _read_liked(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Read "which color do I like second best?" and "what movie did I rank third?": a canonical topic."""
    ask = _match_ask(text)
    wordings = [text, text[ask.end() :].lstrip()] if ask else [text]
    return next((found for wording in wordings if (found := _read_wording(wording, topics))), ())


def _read_wording(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Read "which color do I like second best?" without the words that ask."""
    match = _EN.liked.match(text)
    if not match or not (match["most"] or match["place"]) or not _EN.tail.match(text, match.end()):
        return ()
    noun, end = read_noun(match["noun"], 0)
    topic = topics.find_canonical(noun) if noun and end == len(match["noun"]) else None
    if not topic:
        return ()
    place = match["rank"] or match["place"]
    rank = to_rank(place) if place else None
    return (QuestionPart(_kind_of(noun, rank), topic, rank),)


def _read_topicless(text: str) -> tuple[QuestionPart, ...]:
    """Read a question without a topic: "what's my second favorite?", "what was #3?", "list them"."""
    ask = _match_ask(text)
    # the search for a tail takes most of the time, and statements, which end here, are most of the texts
    if not (ask or text.endswith("?") or _EN.own_rank.match(text.strip(" ,?.!")) or _EN.number_alone.fullmatch(text)):
        return ()
    tail = _EN.tail.search(text)
    match = _EN.no_topic.match(text[ask.end() if ask else 0 : tail.start() if tail else len(text)].strip(" ,?.!"))
    if not match:
        return ()
    if match["count"]:
        return (QuestionPart("slice", None, to_rank(match["count"])),)
    if rank := match["own"] or match["mine"] or match["rank"]:
        return (QuestionPart("rank", None, to_rank(rank)),)
    if match["first"]:
        return (QuestionPart("first", None),)
    return (QuestionPart("list", None),) if ask or match["all"] else ()
