"""Signs that a sentence about favorites states nothing about the user: jokes, conditions, reports, texts to work on."""

import re
from collections.abc import Sequence
from typing import Final

from app.domain.facts.phrases import NUMBER, one_of, word_set

_JOKE: Final = re.compile(
    one_of(
        r"""\byeah,? right\b|\bas if\b(?! (?:i|you|he|she|it|we|they)\b)|(?<!\S)/s\b|\b(?:kidding|joking)\b|\bj/?k\b
        |\blol,? (?:no|not)\b|\bha(?:ha)+,? (?:no|not)\b|🙄|\bnot really\b|\bas a joke\b|\bsarcas\w+
        |\bin your dreams\b|\bsaid no ?one\b|\bnot ?!|\bthat's (?:a lie|not true)\b|\bi (?:was|am) lying\b
        |\bi'm lying\b|\(not\)|^not[.!]*$"""
    ),
    re.IGNORECASE,
)
_UNREAL: Final = re.compile(
    r"\bin (?:this|the|a|my|our) (?:story|game|dream|novel|scenario|role-?play|example|hypothetical)\b", re.IGNORECASE
)
_DOUBT: Final = re.compile(
    r"\b"
    + one_of(
        r"""if|unless|suppos\w+|imagin\w+|pretend\w*|assum\w+|hypothetical\w*|maybe|perhaps|possibly|probably|might
        |when|whenever|wish\w*|wonder\w*|hop(?:e|ed|ing)|says?|said|saying|claim\w*|thinks?|thinking|thought
        |believ\w+|bets?|told|tells?|telling|asks?|asked|according|wrote|writes?|written|writing
        |(?<!i )(?<!mostly )(?<!mainly )(?<!usually )reads?|quot\w+
        |whether|what|which|why|how|who|whose|where|did|does|do you|is it|am i|used to|once|child\w*|kid|grew up
        |growing up|back then|back at|dream\w*|guess\w*|rumou?rs?|lie[sd]?|lying|joke\w*|fake|false|untrue|wrong
        |assistant|bot|not true|isn't true|story|poem|lyrics|essay|character|sentence|phrase|paragraph
        |translat\w+|proofread\w*|rewrite|rephrase|paraphrase|summari[sz]e\w*|fix|grammar|example|e\.g
        |for instance|he|she|they|him|them|mistaken\w*|insist\w*|convinced|heard|knows|don't|never|nobody|no one"""
    )
    + r"\b",
    re.IGNORECASE,
)
"""Words before a statement that make it no statement of its user."""
_WORK: Final = (
    "translat(?:e|ing|ion)|proofread|rewrite|rephrase|paraphrase|summari[sz]e|shorten|spell-?check|polish|improve"
)
_GIVEN_TEXT: Final = re.compile(
    rf"\b(?:{_WORK}|"
    + one_of(
        """fix|correct|edit|check|analy[sz]e|parse|grammar|sentences?|paragraph|essay|e-?mail|letter|bio|dialogue
        |lyrics|message|text|tweet|caption|reply|prompt|transcript|article|wrote|writes|written|said|says|example
        |template|script|review|quote"""
    )
    + r")\b",
    re.IGNORECASE,
)
_TEXT_TASK: Final = re.compile(
    rf"\b(?:{_WORK}|fix|grammar|correct)\b[^.!?]{{0,40}}\b"
    r"(?:this|these|(?:the )?following|below|my (?:text|bio|essay|e-?mail|letter|paragraph|sentence|intro\w*))\b",
    re.IGNORECASE,
)
_FICTION: Final = re.compile(
    r"\W{0,9}(?:(?:ok|okay|so|now|please|hey|just)\W{1,9}){0,4}"
    + one_of(
        r"""imagine|pretend|suppose|supposing|assume|hypothetically|let's (?:say|pretend|play|imagine|assume
        |role-?play)|role-?play
        |two truths and (?:a|one) lie|act as|you are now|(?:write|tell|make up|invent|compose|draft|create
        |generate)\b[^.!?]{0,60}\b(?:story|poem|song|character|persona|dialogue|script|monologue|scene|novel
        |essay|letter|speech|lyrics|bio|email|post|tweet|rap|limerick|haiku|joke|profile|diary|paragraph
        |sentences?)"""
    )
    + r"\b",
    re.IGNORECASE,
)
_TAKEN_BACK: Final = re.compile(
    r"(?:oh,? )?(?:(?:scratch|strike) that|wait,? no\b|no,? wait\b|correction\b|i mean[,:]? |i meant |make that "
    r"|on second thoughts?\b|(?:wait|no|nope|sorry|actually|oops)[,:] (?:[^\s.!?]+ ?){1,3}[.!]*$)",
    re.IGNORECASE,
)
_FURTHER_QUESTION: Final = re.compile(
    r"[\s,;.!–—-]*(?:(?:and|so|but) )?"
    + one_of("""what|what's|which|who|where|how|why|when|can|could|would|will|any|should|is there|are there|got""")
    + r" (?:\w[\w'-]*\W+){2}",
    re.IGNORECASE,
)

_ACTIVITIES: Final = word_set("""
    hobby sport activity exercise pastime subject chore skill workout discipline class course event stroke interest
    habit ritual technique method style genre dance verb word art
""")
"""Nouns whose values may end in "-ing" or "-ed" and have a place: "hiking with my dog"."""
_QUALITIES: Final = word_set("""
    taste flavor texture mood emotion feeling word adjective weather temperature vibe look mode level size season
    finish style shape number distance length price age score date diet setting
""")
"""Nouns whose values are adjectives or measures: "my favorite taste is sour"."""
_TITLED: Final = word_set("movie film book novel song track show series tv album game")
_DISHES: Final = word_set(
    "food dish meal snack breakfast lunch dinner dessert drink sandwich burger pizza salad cocktail"
)
_PEOPLE: Final = word_set("""
    author teacher actor actress singer player artist writer band musician director poet composer comedian rapper
    youtuber streamer athlete coach chef painter celebrity professor scientist wrestler driver team club squad person
""")
_DEMONYMS: Final = word_set("""
    American British English Canadian Australian Irish Scottish Welsh French German Italian Spanish Portuguese Russian
    Polish Dutch Swedish Norwegian Danish Finnish Chinese Japanese Korean Indian Mexican Brazilian Argentinian Turkish
    Greek Swiss African Nigerian Israeli Egyptian Ukrainian Vietnamese Thai Colombian Cuban Jamaican Austrian Belgian
    Czech Hungarian Romanian European Asian
""")
_NAMES_IN_ING: Final = word_set("""
    pudding icing frosting stuffing dressing dumpling evening morning wedding ceiling building sibling duckling earring
    sterling herring viking clothing lightning sapling
""")
_NAMES_IN_ED: Final = word_set("wicked tangled cursed weed seaweed flaxseed aniseed steed breed speed multicolored")
_STATES: Final = word_set("""
    sick ill injured hurt dead pregnant lost gone stuck stolen broken dirty spicy salty hot cold warm slow fast laggy
    buggy uncomfortable comfortable comfy bankrupt full empty busy free cheap rare popular famous old new short long
    tall big small large tiny huge heavy happy sad funny scary weird healthy tasty yummy offline online single married
    everywhere irrelevant important unimportant due overdue alive asleep awake away hungry thirsty angry mad worn
    torn shut unavailable rainy noisy loud quiet soft hard down
    near far close next beside behind inside outside within without across along beyond under around below above
    yours mine hers ours theirs obvious clear
""")
"""Adjectives and adverbs that tell about a thing and do not name it."""
_LINKS: Final = word_set("""
    in on at to from with for by of about around near next as and or but until till since during after before because
    now today right again lately soon currently this last next tomorrow tonight yesterday these all every too so very
    the a an my your his her our their its down up out off over away back into through under against than like
    worse better me us them ever anymore here there everywhere
""")
_INTENSIVE: Final = word_set("super extra half all way bit totally overly fully")
_MEASURE: Final = re.compile(
    rf"(?:(?:{NUMBER}|an?)[\d.,]{{0,9}}[ -]?(?:pages?|hours?|hrs?|minutes?|mins?|miles?|km|kilomet(?:er|re)s?"
    r"|met(?:er|re)s?|feet|foot|ft|years?|days?|weeks?|months?|blocks?|seconds?) (?:long|away|old|tall|high|deep|wide"
    r"|from|ago|off|thick)\b|\d[\d.,]{0,9} ?(?:%|pages?$|bucks$|dollars$|percent\b)|[-+]\d+(?:\.\d+)? ?%)",
    re.IGNORECASE,
)
_SCORE: Final = re.compile(r"\d{1,3}-\d{1,3}(?:-\d{1,3})?(?: |$)")
_DESCRIBED: Final = re.compile(r"an? [\w' -]{1,60}? (?:about|that|which|who)\b")
_WITH: Final = re.compile(r"an? [\w' -]{1,60}? with\b")
_PLACED: Final = re.compile(
    r"(?!(?:the|an?|my) )[^\W\d_].{0,80}? (?:in|on|at|near|from|with|for|by|around|inside|behind|of|to)"
    r" (?:my|your|his|our|their|this) "
)


def tells_state(value: str, noun: Sequence[str]) -> bool:
    """Tell whether words after "my favorite … is" tell how or where the thing is, and do not name it."""
    words = re.findall(r"[\w'%-]+", value[:200])
    if not words or not noun:
        return False
    head = noun[-1]
    if words[0] in _DEMONYMS:
        return len(words) == 1 and head in _PEOPLE | _TITLED
    if _SCORE.match(value):
        return head in _PEOPLE
    if head in _QUALITIES:
        return False
    if _MEASURE.match(value):
        return True
    if not words[0].islower():
        return False
    if _DESCRIBED.match(value) or (head not in _DISHES and _WITH.match(value)):
        return True
    if words[-1] == "free" and len(words) == 2:
        return True
    return head not in _ACTIVITIES and (_PLACED.match(f"{value} ") is not None or _opens_state(words))


def _opens_state(words: Sequence[str]) -> bool:
    """Tell whether these words begin with a participle or an adjective that is never a name."""
    if len(words) > 1 and (words[0] in _INTENSIVE or words[0].endswith("ly")):
        words = words[1:]
    first = words[0]
    following = words[1] if len(words) > 1 else ""
    participle = (first.endswith("ing") and len(first) > 5 and first not in _NAMES_IN_ING) or first == "dying"
    if participle and following[:1].isupper():
        return True
    past = first.endswith("ed") and len(first) > 4 and first not in _NAMES_IN_ED
    alone = not following or following in _LINKS or following[0].isdigit()
    return alone and (participle or past or first in _STATES)


def marks_joke(sentence: str) -> bool:
    """Tell whether a sentence has a mark of sarcasm, of a joke or of a world that is not real."""
    return _JOKE.search(sentence) is not None or _UNREAL.search(sentence) is not None


def casts_doubt(words: str) -> bool:
    """Tell whether words before a statement make it a condition, a report, a question or a part of a text."""
    return _DOUBT.search(words) is not None


def hands_over_text(sentence: str) -> bool:
    """Tell whether what follows a sentence is a text to work on, or the text of somebody else."""
    opens = sentence.rstrip(" \"'").endswith((":", "-", "–", "—"))
    return (opens and _GIVEN_TEXT.search(sentence) is not None) or _TEXT_TASK.search(sentence) is not None


def find_doubt(words: str) -> int | None:
    """Return the end of the first words that cast doubt on what follows, or None."""
    match = _DOUBT.search(words)
    return match.end() if match else None


def is_given_text(words: str) -> bool:
    """Tell whether words name a text or what somebody wrote or said: "Here is my bio"."""
    return _GIVEN_TEXT.search(words) is not None


def takes_back(sentence: str) -> bool:
    """Tell whether a sentence without a favorite takes back the sentence before it: "Scratch that, blue."."""
    return _TAKEN_BACK.match(sentence) is not None and "fav" not in sentence.lower()


def opens_fiction(sentence: str) -> bool:
    """Tell whether a sentence opens a story, a supposition or a role."""
    return _FICTION.match(sentence) is not None


def asks_further(rest: str) -> bool:
    """Tell whether the rest of a sentence, after a statement, asks about something else than its truth."""
    return _FURTHER_QUESTION.match(rest) is not None
