"""Signs that a sentence about favorites states nothing of its user: jokes, conditions, reports, texts to work on."""

import re
from typing import Final

from app.domain.facts.phrases import one_of

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
        |believ\w+|bets?|told|tells?|telling|asks?|asked|according|wrote|writes?|written|writing|reads?|quot\w+
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
        |role-?play)|role-?play|act as|you are now|(?:write|tell|make up|invent|compose|draft|create
        |generate)\b[^.!?]{0,60}\b(?:story|poem|song|character|persona|dialogue|script|monologue|scene|novel
        |essay|letter|speech|lyrics|bio|email|post|tweet|rap|limerick|haiku|joke|profile|diary|paragraph
        |sentences?)"""
    )
    + r"\b",
    re.IGNORECASE,
)
_FURTHER_QUESTION: Final = re.compile(
    r"[\s,;.!–—-]*(?:(?:and|so|but) )?"
    + one_of("""what|what's|which|who|where|how|why|when|can|could|would|will|any|should|is there|are there|got""")
    + r" (?:\w[\w'-]*\W+){2}",
    re.IGNORECASE,
)


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


def opens_fiction(sentence: str) -> bool:
    """Tell whether a sentence opens a story, a supposition or a role."""
    return _FICTION.match(sentence) is not None


def asks_further(rest: str) -> bool:
    """Tell whether the rest of a sentence, after a statement, asks about another matter than whether it is true."""
    return _FURTHER_QUESTION.match(rest) is not None
