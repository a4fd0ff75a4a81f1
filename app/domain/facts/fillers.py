"""Words that open a sentence and say nothing about its facts: "hi", "just so you know", "actually", "please"."""

import re
from dataclasses import dataclass
from typing import Final

from app.domain.facts.phrases import one_of

_SIGNS: Final = re.compile(r"[\s,:;!.…()~–—-]+")
_CORRECTING: Final = re.compile(
    one_of(
        """actually|wait|no|nope|correction|sorry|scratch that|on second thoughts?|my mistake|my bad|oops|whoops
        |update(?: from me)?|edit|i (?:mean|meant)|make that|rather|i(?:'ve)? changed my mind"""
    )
    + r"(?![\w'])",
    re.IGNORECASE,
)
_ASKING: Final = re.compile(r"(?:can|could|would|will) (?:you|we)(?: please| kindly| also)?(?![\w'])", re.IGNORECASE)
_OPENING: Final = re.compile(
    one_of(
        r"""hey|hi|hiya|hello|yo|dear|ok|okay|so|well|oh|ah|hm+|um+|uh|yes|yeah|yep|yup|also|and|but|plus|then|now
        |btw|by the way|fyi|ps|p\.s|for the record|(?:just )?so you(?:'d)? know|thought you should know
        |to be (?:clear|honest|fair)|to clarify|notes?(?: that)?|reminder|remember(?: that)?|please|pls|kindly
        |any(?:way|ways|how)|honestly|truthfully|frankly|personally|obviously|fun fact|quick (?:note|update|fact
        |one|thing)|(?:(?:a bit|a little|some facts|more) )?about (?:me|myself)|as for me|for me|alright
        |all right|right|sure|thanks(?: (?:so much|a lot|again))?|thank you(?: so much)?|cool|great|nice|perfect
        |good (?:morning|evening|afternoon|day|night)|morning|evening|in case it helps|in case you(?:'re|are
        |were)? (?:wonder(?:ing)?|ask(?:ing)?|need it|care)|you know(?=,)|let me (?:tell|share with) you
        |i(?:'ve)? (?:just )?(?:decided|reali[sz]ed)(?: that)?|one more thing|i (?:should|must|have to|want to
        |need to) (?:mention|say|note|add|admit|confess)(?: that)?|i'd say(?: that)?|i would say|(?:keep
        |bear) in mind(?: that)?|(?:make|take) (?:a )?note|don't forget(?: that)?|(?:save|store) this
        |for your (?:information|records)|i want(?:ed)? you to know(?: that)?|please know(?: that)?
        |(?:it )?turns out(?: that)?|after all|these days|nowadays|lately|currently|right now|today|as of (?:now
        |today)|in fact|basically|lol|haha+|yay|wow|first(?:ly|of all)?(?=,)|secondly(?=,)|finally|lastly|next
        |(?:as for|when it comes to|in terms of|regarding|speaking of|talking (?:of|about)|concerning)(?=\s*$)
        |omg|tbh|imo|imho|ngl|heads up|spoiler|confession
        |it's official
        |i (?:keep|kept|always) tell(?:ing)? (?:her|him|them|you|everyone|everybody|people)(?: that)?
        |i (?:just )?notice(?:d)?(?: that)?|i(?:'ve| have) noticed(?: that)?|i (?:can|must) tell you(?: that)?
        |i(?:'m| am) telling you(?: that)?|i(?:'ll| will) tell you(?: that)?|just wanted to (?:say|mention
        |add)(?: that)?
        |for what it's worth|to answer (?:your question|you)|as you (?:asked|wanted|wished)|good news|ok then|hm
        |one (?:unrelated|other|last|small|quick|random|different|more) (?:thing|note|fact|detail)|unrelated(?:ly)?
        |go ahead and|i(?:'d|would) (?:like|love)(?: you)? to|i (?:want|need)(?: you)? to|just|let's"""
    )
    + r"(?![\w'])",
    re.IGNORECASE,
)
_ASIDE_WORDS: Final = one_of(
    """of course|naturally|obviously|certainly|clearly|undoubtedly|last but not least|needless to say|to be honest
    |honestly|as always|as ever|surprisingly|believe it or not|oddly enough|strangely enough|finally|lastly|i guess
    |i suppose|you guessed it|drumroll|yes|well|no surprise|to no one's surprise|my beloved|the classic"""
)
_ASIDE: Final = re.compile(rf"(?P<joint>,? (?:and|&|or))?, {_ASIDE_WORDS},(?= )", re.IGNORECASE)
_ASIDE_IN_DASHES: Final = re.compile(
    rf" (?P<sign>[-–—]) {_ASIDE_WORDS} (?P=sign)(?= )| \({_ASIDE_WORDS}\)", re.IGNORECASE
)
_AFTER_NOUN: Final = re.compile(
    r", (?:by the way|btw|of course|for the record|incidentally|as it happens|in case you wonder(?:ed)?|honestly"
    r"|obviously),"
    r"(?= (?:is|are)\b)",
    re.IGNORECASE,
)
_LAST_OF_ALL: Final = re.compile(r",? (?:and,? )?last but not least,? (?=\w)", re.IGNORECASE)
_AND_COMMA: Final = re.compile(r"(?<=,) and, (?=[\w\"'])")
_NOT_ONLY: Final = re.compile(
    r"\bnot (?:only|just) (?P<value>[^,.;:!?]{1,80}?),? but(?: (?:it's|they're))? also ", re.IGNORECASE
)
_BLANK: Final = re.compile(r"[^\w\"']*")


@dataclass(frozen=True, slots=True)
class Opened:
    """The words after a sentence's opening. `asks`: it had "can you" or the like; `corrects`: it had "actually"."""

    rest: str
    asks: bool
    corrects: bool


def strip_fillers(text: str) -> Opened:
    """Return `text` without the words that open it and say nothing."""
    at = 0
    asks = False
    corrects = False
    while True:
        if match := _CORRECTING.match(text, at):
            corrects = True
        elif match := _ASKING.match(text, at):
            asks = True
        else:
            match = _SIGNS.match(text, at) or _OPENING.match(text, at)
        if not match:
            return Opened(text[at:].rstrip(), asks, corrects)
        at = match.end()


def drop_asides(line: str) -> str:
    """Return lines without remarks between values: "red and, of course, blue" is "red and blue". Linear.

    "Not only red but also blue" is "red and also blue".
    """
    line = _AFTER_NOUN.sub("", line)
    line = _LAST_OF_ALL.sub(" and ", line)
    line = _ASIDE.sub(lambda match: match["joint"] or ",", line)
    line = _AND_COMMA.sub(" and ", _ASIDE_IN_DASHES.sub("", line))
    return _NOT_ONLY.sub(r"\g<value> and also ", line)


def is_blank(text: str) -> bool:
    """Tell whether a text has no word and no quotation mark. It may have emoji."""
    return _BLANK.fullmatch(text) is not None
