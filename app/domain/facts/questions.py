"""Questions for stored favorites: "what's my second favorite color?", "list my favorite movies", "what was #3?".

A question is answered only if the grammar here reads all of it. Everything else falls through to search.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from app.domain.facts.cleaning import clean_message
from app.domain.facts.fact import QuestionPart
from app.domain.facts.mentions import Mention, find_mentions
from app.domain.facts.nouns import has_one_form, is_plural, read_noun
from app.domain.facts.phrases import FAVORITE, NUMBER, NUMBERED, ORDINAL, RANK, one_of, to_rank, word_set
from app.domain.facts.topics import FactTopics
from app.domain.text_rules import sentence_ends

MAX_QUESTION: Final = 600
"""The longest text in characters that is read as a question. A longer one tells or asks more than a rank or a list."""
_RAW_FACTOR: Final = 4
"""The factor by which a text may exceed its limit before it is cleaned."""
_HINT: Final = re.compile(
    rf"fav|\bmy\b|#|\btop\b|\b(?:number|{ORDINAL}|\d{{1,10}}(?:st|nd|rd|th)|list|show|name|tell|give|what)\b",
    re.IGNORECASE,
)
_FILLER: Final = re.compile(
    one_of(
        r"""hey|hi|hiya|hello|yo|ok|okay|so|well|oh|ah|hm+|um+|uh|and|but|also|then|now|please|pls|btw|by the way|sorry
        |thanks|cool|great|good (?:morning|evening|afternoon|day)|morning|evening|quick question|one more|just
        |remind me(?=,)
        |again|alright|right|there|just curious|out of curiosity|i forgot|i forget|help me out"""
    )
    + r"(?![\w'])[\s,:;.!…–—-]*",
    re.IGNORECASE,
)
_NAME_CALL: Final = re.compile(r"(?:hey|hi|hello|ok) [\w'-]{1,30}, ", re.IGNORECASE)
_POLITE: Final = r"(?:(?:can|could|would|will) (?:you|u|ya) (?:please |kindly )?|(?:i'?d like|i want) (?:you )?to )?"
_BE: Final = r"(?:is|are|was|were|'s|s|'re)"
_ASK: Final = re.compile(
    rf"(?:(?:what ?{_BE}|which (?:ones? )?(?:is|are|was|were)|who ?{_BE})(?: again)?"
    rf"|{_POLITE}(?:(?P<request>"
    + one_of("tell|show|give|list|name|recall|display|print|repeat|recite")
    + r"(?: (?:me|back|out|off|us))*(?: (?:all|of|again|what))*|remind me(?: (?:of|about|what|again))*)"
    r"|(?:do )?(?:you )?(?:still )?(?:remember|know|recall)(?: (?:what|all|of|again))*)(?: (?:is|are|was|were))?"
    r"|what did i (?:say|tell you)(?: that)?"
    r"|(?:what|how) about)(?![\w'])",
    re.IGNORECASE,
)
_LIST_WORD: Final = re.compile(r"\blist\b", re.IGNORECASE)
_SINGULAR_VERB: Final = re.compile(r"(?:\bis|\bwas|s)$", re.IGNORECASE)
_PLURAL_VERB: Final = re.compile(r"(?:\bare|\bwere|'re)$", re.IGNORECASE)
_TAIL: Final = re.compile(
    r"(?:[\s,]*"
    + one_of(
        r"""again|please|pls|plz|thanks|thank you|now|right now|currently|so far|then|is|are|was|were|for me|to me
        |at the moment|these days|what (?:is|was) (?:it|that)|what (?:are|were) they
        |in (?:(?:the )?(?:right|correct) )?order|by rank|ranked|(?:by|from) memory
        |that i (?:told|gave) you|you have (?:stored|saved|on file)|if you (?:remember|know|can)|btw|by the way
        |do you (?:remember|know)|from (?:first|top) to (?:last|bottom)"""
    )
    + r"(?![\w']))*[^\w\"'#@%$&+/<>=*]*$",
    re.IGNORECASE,
)
_AND: Final = re.compile(r",? (?:and|&|plus|as well as)(?: also| then)? |, ", re.IGNORECASE)
_AND_BEFORE_MY: Final = re.compile(r",?(?: ?(?:and|&|plus|also|as well as))*(?: what(?: is|'s| are|s))?", re.IGNORECASE)
_WITHOUT_MY: Final = re.compile(rf"(?:the )?(?:(?P<rank>{RANK}) )?(?:(?P<favorite>{FAVORITE}) )?(?=\w)", re.IGNORECASE)
_BARE_TOP: Final = re.compile(rf"top (?P<count>{NUMBER})(?= \w)", re.IGNORECASE)
_MY_TOP: Final = re.compile(rf"what ?{_BE} my top(?= \w)", re.IGNORECASE)
_PERSONAL: Final = word_set("name names age birthday address email phone number job height weight house car")
"""Nouns of what a user has one of: "my favorite color and birthday" asks for no favorite birthday."""
_GREETING: Final = re.compile(
    r"(?:i )?hope (?:you|all|this|your)\b[\w\s',]{0,60}[.!]*|(?:how are you|how's it going)[\w\s]{0,20}[?.!]*"
    r"|nice to (?:see|meet) you[\w\s]{0,20}[.!]*",
    re.IGNORECASE,
)
_OWN: Final = re.compile(r" my(?= )", re.IGNORECASE)
_ENTRY: Final = r"(?: (?:one|entry|item|place|spot))?"
_OF_LIST: Final = re.compile(
    r"on|all(?: of)?|(?:the |a )?(?:(?:full|whole|complete|entire) )?(?:list|names?|ranking) of", re.IGNORECASE
)
_IN_LIST: Final = re.compile(
    rf"(?:at |in )?(?:the |my )?(?P<rank>{RANK}){_ENTRY} (?:on|in|of|from|among)(?: the list of)?$", re.IGNORECASE
)
_COUNTED: Final = re.compile(rf"{NUMBER}$", re.IGNORECASE)
_CHOICE: Final = re.compile(
    rf"(?:which|what)(?P<favorite> of my {FAVORITE})? (?P<noun>[\w' -]{{1,60}}?) (?:is|are|was|were|comes|ranks)"
    r"(?: in| at)? (?P<what>.{1,60})$",
    re.IGNORECASE,
)
_MY_RANK: Final = re.compile(
    rf"my (?:(?P<rank>{RANK}) |all-time |absolute |very ){{0,3}}{FAVORITE}(?: ones?)?$", re.IGNORECASE
)
_ITS_RANK: Final = re.compile(
    rf"(?:my )?(?P<rank>{NUMBERED}|{ORDINAL})(?: place)?(?: on (?:my|the) list)?$", re.IGNORECASE
)
_NO_TOPIC: Final = re.compile(
    rf"(?:(?:my|the) top (?P<count>{NUMBER})(?: {FAVORITE})?|my (?P<own>{RANK}) {FAVORITE}(?: one)?"
    rf"|my (?P<all>(?:favou?rite|fav|fave)s)|my (?P<first>{FAVORITE})(?: one)?"
    rf"|(?:the )?(?P<rank>{RANK})(?: favou?rite)?{_ENTRY}(?: (?:on|in) my list)?"
    r"|them(?: all)?|they|all of them|(?:my|the|that) (?:whole |full )?list|those)$",
    re.IGNORECASE,
)
_TOLD_BEFORE: Final = re.compile(
    r"(?:i|i'm|i've|im|we|we're|my|it's|just|sorry|thanks|hello|hi|hey|good|ok|okay|so|well|quick)\b", re.IGNORECASE
)
_DEMAND: Final = re.compile(r"\?|\b(?:please|can you|could you|would you|need you|want you|help me)\b", re.IGNORECASE)
_WORD: Final = re.compile(r"\w")
_THANKS: Final = re.compile(
    r"(?:(?:many )?thanks|thank you|thx|cheers|ta)"
    r"(?:,? (?:so|very|much|a|lot|ton|again|in|advance|man|mate|buddy|friend|dear|all|for|your|the|help|this|that))*\W*"
    r"|please\W*",
    re.IGNORECASE,
)

Kind = Literal["rank", "list", "slice", "first"]


def parse_question(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Return what a text asks of stored facts; nothing if it asks anything else.

    A text longer than four times MAX_QUESTION is no question. Linear.
    """
    if len(text) > _RAW_FACTOR * MAX_QUESTION or not _HINT.search(text):
        return ()
    parts: list[QuestionPart] = []
    for sentence in _split_question(clean_message(text)):
        rest = _strip_opening(sentence)
        found = _read_favorites(rest, topics) or _read_choice(rest, topics) or _read_top(rest, topics)
        found = found or _read_topicless(rest)
        parts.extend(found)
        if not found and (parts or not _TOLD_BEFORE.match(sentence) or _DEMAND.search(sentence)):
            return ()
    return tuple(parts)


def _split_question(clean: str) -> list[str]:
    """Return the sentences of a text without thanks at its end; nothing if the text is long."""
    if len(clean) > MAX_QUESTION:
        return []
    line = " ".join(clean.replace("**", "").replace("`", "").split())
    ends = sentence_ends(line)
    pieces = [line[start:end].strip() for start, end in zip([0, *ends], [*ends, len(line)], strict=True)]
    pieces = [piece for piece in pieces if piece]
    while len(pieces) > 1 and (_GREETING.fullmatch(pieces[0]) or not _WORD.search(pieces[0])):
        del pieces[0]
    if len(pieces) > 2 and _FILLER.fullmatch(pieces[0]) and _GREETING.fullmatch(pieces[1]):
        del pieces[:2]
    while len(pieces) > 1 and _THANKS.fullmatch(pieces[-1]):
        del pieces[-1]
    return pieces


def _strip_opening(question: str) -> str:
    """Return a question without greetings and fillers at its start."""
    at = 0
    while match := (_NAME_CALL.match(question, at) or _FILLER.match(question, at)):
        at = match.end()
    return question[at:]


def _read_favorites(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Read a request for favorites with their topics: "what are my favorite colors and my favorite foods?"."""
    ask = _ASK.match(text)
    end = ask.end() if ask else 0
    mentions = [mention for mention in find_mentions(text, topics) if mention.owner == "my"]
    if not mentions:
        return _read_own_list(text[end:], topics) if ask and ask["request"] else ()
    one = bool(ask and _SINGULAR_VERB.search(ask[0]))
    plural = bool(ask and (_LIST_WORD.search(ask[0]) or (len(mentions) == 1 and _PLURAL_VERB.search(ask[0]))))
    parts: list[QuestionPart] = []
    for at, mention in enumerate(mentions):
        between = text[end : mention.start].strip()
        place = _IN_LIST.match(between) if at == 0 and between else None
        joined = place or not between or _OF_LIST.fullmatch(between) if at == 0 else _AND_BEFORE_MY.fullmatch(between)
        if not joined or mention.topic is None:
            return ()
        ranks = (to_rank(place["rank"]),) if place else mention.ranks
        plural = plural or between.lower() == "on" or (has_one_form(mention.noun[-1]) and not one)
        parts.extend(_make_parts(mention, mention.topic, ranks, plural))
        further, end = _read_further(text, mention, topics)
        parts.extend(further)
    return tuple(parts) if _TAIL.match(text, end) else ()


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
    while (joint := _AND.match(text, end)) and (opened := _WITHOUT_MY.match(text, joint.end())):
        noun, noun_end = read_noun(text, opened.end())
        topic = topics.find_topic(noun) if opened["favorite"] or mention.favorite else topics.find_canonical(noun)
        if not opened["favorite"] and noun and noun[-1] in _PERSONAL:
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
    if not (opened := _OWN.match(text)):
        return ()
    noun, end = read_noun(text, opened.end())
    topic = topics.find_canonical(noun)
    return (QuestionPart("list", topic),) if topic and is_plural(noun[-1]) and _TAIL.match(text, end) else ()


def _read_top(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Read "top 2 movies?" and "what's my top color": a canonical topic without the word favorite."""
    opened = _BARE_TOP.match(text) or _MY_TOP.match(text)
    if not opened:
        return ()
    noun, end = read_noun(text, opened.end())
    topic = topics.find_canonical(noun)
    if not topic or not _TAIL.match(text, end):
        return ()
    if "count" in opened.re.groupindex:
        return (QuestionPart("slice", topic, to_rank(opened["count"])),) if "?" in text[end:] else ()
    return (QuestionPart(_kind_of(noun, None), topic),)


def _read_choice(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Read "which movie is my third favorite?" and "which of my favorite movies is number two?"."""
    match = _CHOICE.match(text.rstrip(" ?.!"))
    if not match:
        return ()
    noun, end = read_noun(match["noun"], 0)
    own = _MY_RANK.match(match["what"])
    place = own or (_ITS_RANK.match(match["what"]) if match["favorite"] else None)
    plain = noun and end == len(match["noun"]) and not _COUNTED.match(noun[0])
    topic = topics.find_topic(noun) if plain else None
    if not place or not topic:
        return ()
    rank = to_rank(place["rank"]) if place["rank"] else None
    return (QuestionPart(_kind_of(noun, rank), topic, rank),)


def _read_topicless(text: str) -> tuple[QuestionPart, ...]:
    """Read a question without a topic: "what's my second favorite?", "what was #3?", "list them"."""
    ask = _ASK.match(text)
    tail = _TAIL.search(text)
    match = _NO_TOPIC.match(text[ask.end() if ask else 0 : tail.start() if tail else len(text)].strip(" ,?.!"))
    if not match or not (ask or match["own"] or text.endswith("?")):
        return ()
    if match["count"]:
        return (QuestionPart("slice", None, to_rank(match["count"])),)
    if rank := match["own"] or match["rank"]:
        return (QuestionPart("rank", None, to_rank(rank)),)
    if match["first"]:
        return (QuestionPart("first", None),)
    return (QuestionPart("list", None),) if ask or match["all"] else ()
