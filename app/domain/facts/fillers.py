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
        |go ahead and|i(?:'d|would) (?:like|love)(?: you)? to|i (?:want|need)(?: you)? to|just|let's"""
    )
    + r"(?![\w'])",
    re.IGNORECASE,
)
_BLANK: Final = re.compile(r"[^\w\"']*")


@dataclass(frozen=True, slots=True)
class Opened:
    """The words after a sentence's opening. `asks` tells of "can you", `corrects` of "actually" and the like."""

    rest: str
    asks: bool
    corrects: bool


def strip_fillers(text: str) -> Opened:
    """Return `text` without the words that open it and say nothing."""
    at, asks, corrects = 0, False, False
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


def is_blank(text: str) -> bool:
    """Tell whether a text has no word and no quotation mark. It may have emoji."""
    return _BLANK.fullmatch(text) is not None
