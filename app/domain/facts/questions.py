"""Questions for stored favorites: "what's my second favorite color?", "list my favorite movies", "what was #3?".

A question is answered only if the grammar here reads all of it. Everything else falls through to search.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from app.domain.facts.cleaning import clean_message
from app.domain.facts.fact import FactOperation, QuestionPart
from app.domain.facts.mentions import Mention, find_mentions
from app.domain.facts.nouns import has_one_form, is_plural, read_noun
from app.domain.facts.phrases import FAVORITE, NUMBER, NUMBERED, ORDINAL, RANK, one_of, to_rank, word_set
from app.domain.facts.spelling import QUESTION_WORDS, find_slip, normalize_spelling
from app.domain.facts.statements import read_statements
from app.domain.facts.topics import FactTopics
from app.domain.near_names import slip_forms
from app.domain.text_rules import sentence_ends

MAX_QUESTION: Final = 600
"""The longest text in characters that is read as a question. A longer one tells or asks more than a rank or a list."""
_RAW_FACTOR: Final = 4
"""The factor by which a text may exceed its limit before it is cleaned."""
_HINT: Final = re.compile(
    rf"f(?:av|[aov]{{2}})|\bi (?:like|love|prefer)|\bmy\b|#|\btop\b"
    rf"|\b(?:number|{ORDINAL}|\d{{1,10}}(?:st|nd|rd|th)|list|show|name|tell|give|what)\b",
    re.IGNORECASE,
)
_FILLER: Final = re.compile(
    one_of(
        r"""hey|hi|hiya|hello|yo|ok|okay|so|well|oh|ah|hm+|um+|uh|and|but|also|then|now|please|pls|btw|by the way|sorry
        |thanks|cool|great|good (?:morning|evening|afternoon|day)|morning|evening|quick question|one more|just
        |remind me(?=[,:])|tell me(?=:)|(?:quick )?q(?:uestion)?(?=:)|say(?=,)|lol|haha|thx|real quick|quickly|maybe
        |again|alright|right|there|just curious|out of curiosity|help me out|let's see|let me see
        |i(?:'m| am)? (?:just )?(?:wondering|curious)|i (?:just |already |totally |completely )?(?:forgot|forget)
        |i (?:keep|kept) forgetting|i (?:can't|cannot|cant|don't|dont|do not) (?:quite )?(?:remember|recall)
        |(?:i know )?(?:that )?i(?:'ve| have)? (?:already )?told you(?: (?:this|that|it|already|before|once
        |earlier))*(?=,)
        |sorry (?:for|to) (?:asking|ask)(?: (?:you|this|that))?(?: again)?
        |i (?:have|need) to ask(?: again)?"""
    )
    + r"(?![\w'])[\s,:;.!…–—-]*",
    re.IGNORECASE,
)
_FIRST_WORD: Final = re.compile(r"[A-Za-z]{3,8}(?:(?![\w'])|(?='s\b))")
_REQUEST_FORMS: Final = {word: slip_forms(word) for word in ("list", "show", "tell", "remind", "give", "name")}
"""The words that open a request, with their typos."""
_NAME_CALL: Final = re.compile(r"(?:hey|hi|hello|ok) [\w'-]{1,30}, ", re.IGNORECASE)
_POLITE: Final = r"(?:(?:can|could|would|will) (?:you|u|ya) (?:please |kindly )?|(?:i'?d like|i want) (?:you )?to )?"
_BE: Final = r"(?:is|are|was|were|'s|s|'re|re)"
_ASK: Final = re.compile(
    rf"(?:(?:what ?{_BE}|which (?:ones? )?(?:is|are|was|were)|who ?{_BE})(?: again)?"
    rf"|{_POLITE}(?:(?P<request>"
    + one_of(
        "tell|say|show|give|list|name|recall|display|print|repeat|recite|gimme|lemme (?:see|hear)|let me (?:see|hear)"
    )
    + r"(?: (?:me|back|out|off|us))*(?: (?:all|of|again|what(?:'?s)?|which))*"
    r"|(?:can|could|may) i (?:please )?(?:get|see|have|hear)(?: back)?"
    r"|(?:did|have) i (?:ever |already )?(?:tell|told|mention|mentioned)(?: (?:to )?you)?(?: (?:what|which|of|about))?"
    r"|remind me(?: (?:of|about|what(?:'?s)?|which|again))*)"
    r"|any idea(?: (?:what|which))?|i (?:wanna|want to|would like to|need to) (?:know|see|hear)(?: (?:what|which"
    r"|again))*"
    r"|(?:do )?(?:you |u |ya )?(?:still )?(?:remember|know|recall)(?: (?:what|which|all|of|again))*)(?: (?:is"
    r"|are|was|were))?"
    r"|(?:what|which)(?: one| ones)? (?:did i|have i)(?: (?:say|said|tell you|told you|mention|mentioned|call|called"
    r"|list|listed|name|named|give you|given you|state|stated))(?: (?:that|as|about|to you))?(?: (?:is|are|was|were))?"
    r"|what (?:do|did) you (?:have|know|save|store|note)(?: (?:stored|saved|noted|down|on file))?"
    r"(?: (?:as|for|about|under))?"
    r"|(?:what|which|who)(?: one)? (?:comes|came|ranks|sits|stands|goes|takes|holds|has)(?: (?:at|in))?"
    r"|(?:what|how) about)(?![\w'])",
    re.IGNORECASE,
)
_SUBJECT: Final = re.compile(r"(?!.*\b(?:what|which|who|how|idea)).* (?:is|are|was|were)$", re.IGNORECASE)
"""Words that ask, and a verb behind them: "Show Me is my favorite song" names it."""
_LIST_WORD: Final = re.compile(r"\blist\b", re.IGNORECASE)
_SINGULAR_VERB: Final = re.compile(r"(?:\bis|\bwas|s)$", re.IGNORECASE)
_PLURAL_VERB: Final = re.compile(r"(?:\bare|\bwere|'re)$", re.IGNORECASE)
_TAIL: Final = re.compile(
    r"(?:[\s,]*+"
    + one_of(
        r"""again|please|pls|plz|thanks|thank you|now|right now|currently|so far|then|was it|were they|is|are|was|were
        |for me|to me
        |at the moment|these days|what (?:is|was) (?:it|that)|what (?:are|were) they
        |in (?:(?:the )?(?:right|correct) )?order|by rank|ranked|(?:by|from) memory
        |that i (?:told|gave) you|called|named|of mine|of all[- ]time|ever|at all|by now|until now|lol|haha
        |i (?:told|gave) you(?: about)?(?: (?:earlier|before))?|before|earlier|u know|correct
        |yes|no|right
        |you have (?:stored|saved|on file)|if you (?:remember|know|can)|btw|by the way
        |do you (?:remember|know)|from (?:first|top) to (?:last|bottom)"""
    )
    + r"(?![\w']))*+[^\w\"'#@%$&+/<>=*]*+$",
    re.IGNORECASE,
)
"""Words that may end a question. They are tried once: one that begins another stands after it."""
_AND: Final = re.compile(r",? (?:and|&|plus|as well as)(?: also| then)? |, ", re.IGNORECASE)
_AND_BEFORE_MY: Final = re.compile(r",?(?: ?(?:and|&|plus|also|as well as))*(?: what(?: is|'s| are|s))?", re.IGNORECASE)
_WITHOUT_MY: Final = re.compile(rf"(?:the )?(?:(?P<rank>{RANK}) )?(?:(?P<favorite>{FAVORITE}) )?(?=\w)", re.IGNORECASE)
_BARE_TOP: Final = re.compile(rf"top (?P<count>{NUMBER})(?= \w)", re.IGNORECASE)
_MY_TOP: Final = re.compile(r"my top(?: favou?rite)?(?= \w)", re.IGNORECASE)
_OWN_FAVORITE: Final = re.compile(
    rf"(?:the )?(?:{RANK} |(?:top|first|best) {NUMBER} |top )?{FAVORITE}(?= \w)", re.IGNORECASE
)
_LIKED: Final = re.compile(
    r"(?:(?:which|what|the) )?(?P<noun>[\w' -]{1,60}?)(?: (?:that|which))?(?: (?:do|did|would))? i "
    r"(?:say i |really )?"
    rf"(?:(?:like|liked|prefer)(?: the)?(?: (?P<rank>{RANK}))?(?P<most>[ -](?:best|most))?"
    rf"|(?:rank|ranked|put|place|placed|list|listed|rate|rated)(?: (?:at|in|as|on))?(?: the)? (?P<place>{RANK}))"
    r"(?: place| of all| overall)?",
    re.IGNORECASE,
)
_PERSONAL: Final = word_set("name names age birthday address email phone number job height weight house car")
"""Nouns of what a user has one of: "my favorite color and birthday" asks for no favorite birthday."""
_GREETING: Final = re.compile(
    r"(?:i )?hope (?:you|all|this|your)\b[\w\s',]{0,60}[.!]*|(?:how are you|how's it going)[\w\s]{0,20}[?.!]*"
    r"|nice to (?:see|meet) you[\w\s]{0,20}[.!]*",
    re.IGNORECASE,
)
_OWN: Final = re.compile(r" my(?= )", re.IGNORECASE)
_ENTRY: Final = r"(?: (?:one|entry|item|place|spot|position|slot|choice|pick))?"
_MY_BEST: Final = re.compile(
    rf"my (?P<rank>{RANK})[ -](?:best|most (?:loved|liked)|choice (?:of|for)(?: an?)?)(?= \w)", re.IGNORECASE
)
_ON_LIST: Final = re.compile(
    rf"(?:at |in |on )?(?:the )?(?P<rank>{RANK}|\d{{1,10}}){_ENTRY} (?:on|in|of|from|among) my(?: list of)?(?= \w)",
    re.IGNORECASE,
)
_BARE_RANK: Final = re.compile(r"(?P<rank># ?\d{1,10})(?= \w)", re.IGNORECASE)
_OF_LIST: Final = re.compile(
    r"on|both|all(?: of)?|(?:the |a )?(?:(?:full|whole|complete|entire) )?(?:list|names?|ranking) of", re.IGNORECASE
)
_IN_LIST: Final = re.compile(
    rf"(?:at |in |on )?(?:the |my )?(?:(?P<rank>{RANK}|\d{{1,10}}){_ENTRY}|(?P<top>(?:very )?top(?: spot| place)?)"
    rf"|(?:top|first|best) (?P<count>{NUMBER})(?: ones| entries| items)?) (?:on|in|of|from|among)(?: the list of)?$",
    re.IGNORECASE,
)
_COUNTED: Final = re.compile(rf"{NUMBER}$", re.IGNORECASE)
_CHOICE: Final = re.compile(
    rf"(?:which|what)(?P<favorite> of my {FAVORITE})? (?P<noun>[\w' -]{{1,60}}?)(?: (?:did|do) i (?:say|tell you"
    rf"|call|think))? "
    r"(?:is|are|was|were|comes|ranks|takes|holds|has|sits|stands)(?: in| at| on)?(?: the)? (?P<what>.{1,60})$",
    re.IGNORECASE,
)
_TELL_ME: Final = re.compile(
    r"^(?:(?:can|could|would|will) (?:you|u) (?:please )?)?(?:tell|show|remind)(?: me)?(?: again)? (?=(?:which|what) )",
    re.IGNORECASE,
)
_MY_RANK: Final = re.compile(
    rf"my (?:(?P<rank>{RANK}) |all-time |absolute |very ){{0,3}}{FAVORITE}(?: ones?)?$", re.IGNORECASE
)
_RANK_FOR_ME: Final = re.compile(
    rf"(?:my (?P<rank>{RANK}|top)(?: choice| pick| one)?|(?:the )?(?P<place>{RANK}|top)(?: place| spot)?"
    rf" (?:for me|(?:on|in|of|among) my (?:own )?(?:list|ranking|{FAVORITE})))$",
    re.IGNORECASE,
)
_ITS_RANK: Final = re.compile(
    rf"(?:my )?(?P<rank>{NUMBERED}|{ORDINAL})(?: place)?(?: on (?:my|the) list)?$", re.IGNORECASE
)
_NO_TOPIC: Final = re.compile(
    rf"(?:(?:my|the) top (?P<count>{NUMBER})(?: {FAVORITE})?|my (?P<own>{RANK}) {FAVORITE}(?: one)?"
    rf"|my (?P<mine>{NUMBERED})|(?:my )?fav(?:ou?rite)?s list"
    rf"|(?:(?:all )?my |(?:all )?(?=fav))(?P<all>(?:favou?rite|fav|fave)s)|my (?P<first>{FAVORITE})(?: one)?"
    rf"|(?:the )?(?P<rank>{RANK})(?: favou?rite)?{_ENTRY}(?: (?:on|in) my list)?"
    r"|them(?: all)?|they|all of them|(?:my|the|that) (?:whole |full )?list|those)$",
    re.IGNORECASE,
)
_OWN_RANK: Final = re.compile(rf"my {RANK} {FAVORITE}", re.IGNORECASE)
_NUMBER_ALONE: Final = re.compile(r"(?:and )?# ?\d{1,10}[ .!]*", re.IGNORECASE)
_TOLD_AFTER: Final = re.compile(
    r"(?:i (?:just |really |kinda )?(?:need|want|forgot|forget|keep|can't|cannot|cant|don't|dont|have to|gotta|lost"
    r"|should|must)|i'm|im|it's|its|it is|we need|asking|just|no rush|don't|dont)\b[^?]{0,120}$",
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
        found = _read_sentence(_strip_opening(sentence), topics)
        parts.extend(found)
        told = (_TOLD_AFTER if parts else _TOLD_BEFORE).match(sentence)
        if not found and (not told or _DEMAND.search(sentence)):
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
    first = _FIRST_WORD.match(question, at)
    word = first[0].lower() if first else ""
    meant = QUESTION_WORDS.get(word) or (find_slip(word, _REQUEST_FORMS) if word else None)
    return f"{meant}{question[first.end() :]}" if first and meant else question[at:]


def _match_ask(text: str) -> re.Match[str] | None:
    """Return the words that ask at the start of a sentence; None for a name before its verb."""
    ask = _ASK.match(text)
    return None if ask and _SUBJECT.match(ask[0]) else ask


def _read_favorites(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Read a request for favorites with their topics: "what are my favorite colors and my favorite foods?"."""
    ask = _match_ask(text)
    end = ask.end() if ask else 0
    mentions = [mention for mention in find_mentions(text, topics) if mention.owner == "my"]
    if not mentions:
        own = _OWN_FAVORITE.match(text[end:].lstrip()) if not ask or ask["request"] else None
        if own and not text[end:].lstrip().lower().startswith("my "):
            return _read_favorites(f"{text[:end]} my {text[end:].lstrip()}".lstrip(), topics)
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
        if place and place["count"]:
            parts.append(QuestionPart("slice", mention.topic, to_rank(place["count"])))
            end = mention.end
            continue
        ranks = (to_rank(place["rank"] or "1st"),) if place else mention.ranks
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
    ask = _match_ask(text)
    text = text[ask.end() :].lstrip() if ask else text
    opened = _BARE_TOP.match(text) or _MY_TOP.match(text) or _MY_BEST.match(text)
    opened = opened or _ON_LIST.match(text) or _BARE_RANK.match(text)
    if not opened:
        return ()
    noun, end = read_noun(text, opened.end())
    topic = topics.find_canonical(noun)
    if not topic or not _TAIL.match(text, end):
        return ()
    if opened.re is _BARE_TOP:
        own = "?" in text[end:] or " of mine" in text[end:]
        return (QuestionPart("slice", topic, to_rank(opened["count"])),) if own and not ask else ()
    if "rank" in opened.re.groupindex:
        return (QuestionPart("rank", topic, to_rank(opened["rank"])),)
    return (QuestionPart(_kind_of(noun, None), topic),)


def _read_choice(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Read "which movie is my third favorite?" and "which of my favorite movies is number two?"."""
    match = _CHOICE.match(_TELL_ME.sub("", text.rstrip(" ?.!")))
    if not match:
        return ()
    noun, end = read_noun(match["noun"], 0)
    own = _MY_RANK.match(match["what"])
    place = own or (_ITS_RANK.match(match["what"]) if match["favorite"] else None)
    plain = noun and end == len(match["noun"]) and not _COUNTED.match(noun[0])
    mine = None if place else _RANK_FOR_ME.match(match["what"])
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
    match = _LIKED.match(text)
    if not match or not (match["most"] or match["place"]) or not _TAIL.match(text, match.end()):
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
    if not (ask or text.endswith("?") or _OWN_RANK.match(text.strip(" ,?.!")) or _NUMBER_ALONE.fullmatch(text)):
        return ()
    tail = _TAIL.search(text)
    match = _NO_TOPIC.match(text[ask.end() if ask else 0 : tail.start() if tail else len(text)].strip(" ,?.!"))
    if not match:
        return ()
    if match["count"]:
        return (QuestionPart("slice", None, to_rank(match["count"])),)
    if rank := match["own"] or match["mine"] or match["rank"]:
        return (QuestionPart("rank", None, to_rank(rank)),)
    if match["first"]:
        return (QuestionPart("first", None),)
    return (QuestionPart("list", None),) if ask or match["all"] else ()
