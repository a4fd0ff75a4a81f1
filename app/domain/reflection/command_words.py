"""The English words of commands about what a user said before, as patterns. Each opens a sentence."""

import re
from typing import Final

_OPENS: Final = (
    r"^(?:(?:oh|ok|okay|so|and|but|hey|well|no|wait|sorry|oops|hm+|please|pls|btw|by the way|actually|also|thanks)"
    r"[,!. …–—-]+){0,4}"
)
_ASKS: Final = (
    r"(?:(?:can|could|would|will) you (?:please )?|you (?:can|may|should) |i(?:'d| would) like you to |please )?"
)
_OWN: Final = r"(?:i|i'm|i've|i'd|we|we're|we've|my|our)\b"
_ENDS: Final = r"(?= ?(?:[.,;:!…–—]| - |$))"
OPENER: Final = re.compile(
    r"^(?:(?:oh|ok|okay|so|and|but|hey|well|no|wait|sorry|oops|hm+|btw|by the way|actually|update|correction|fyi"
    r"|also|just so you know|for the record|unfortunately|sadly|luckily|turns out)[,!.: …–—-]+){1,4}",
    re.IGNORECASE,
)
"""Words before a statement that say nothing of it."""
FORGET_STATEMENT: Final = re.compile(
    rf"{_OPENS}{_ASKS}(?:forget|delete|erase|remove|drop|unlearn)(?: the fact| the note| the memory)? that "
    rf"(?P<what>{_OWN}.+)$",
    re.IGNORECASE,
)
"""A request to forget a statement: "Forget that I have a dog"."""
FORGET_TOPIC: Final = re.compile(
    rf"{_OPENS}{_ASKS}(?:"
    r"(?:forget|delete|erase|remove|drop) (?:what|everything|all|anything)(?: that)? "
    r"(?:i(?:'ve| have)? (?:said|told you|mentioned|wrote)|you know|you (?:have )?(?:stored|saved|remember(?:ed)?))"
    r" about (?P<told>.+?)"
    r"|(?:forget|unlearn)(?: about)? (?:my|our|that) (?P<own>(?!is\b|was\b|what\b|i\b|we\b|it\b|you\b).+?)"
    r"|(?:delete|erase|remove|drop) (?:my|our) (?P<kept>.+?) from (?:your |the )?(?:memory|memories|notes|records)"
    r")(?:,? please)?[ .!]*$",
    re.IGNORECASE,
)
"""A request to forget everything about a thing of the user."""
NO_FORGETTING: Final = re.compile(
    r"\b(?:for (?:now|a (?:second|moment|minute|while|bit)|the moment|today|once)|if|until|unless|when|let's|let us"
    r"|password|manners|troubles?|worries|problems?|keys?|wallet|umbrella|name for)\b|,|;| but | - |–|—",
    re.IGNORECASE,
)
"""Words of a sentence that asks to leave a thing out of a talk, and not to forget it."""
TAKES_BACK: Final = re.compile(
    rf"{_OPENS}(?:please )?(?:(?:scratch|strike) that|i take (?:that|it|this) back"
    r"|(?:ignore|disregard|forget|delete) (?:(?:my|that|the) (?:last|previous) (?:message|one|note|statement|sentence)"
    r"|what i (?:just )?(?:said|wrote|told you)(?: (?:just now|before|earlier))?|that i (?:just )?said that)"
    r"|i (?:misspoke|mis-spoke|made that up|said that wrong)|i was wrong(?: about (?:that|it))?|i got that wrong"
    r"|what i (?:just )?(?:said|wrote|told you) (?:was|is|isn't|wasn't) (?:wrong|not true|true|right|correct|incorrect)"
    r"|(?:that|it|this)(?: was|(?P<now>'s| is)) (?:all )?(?:wrong|not true|untrue|incorrect|not right|not correct"
    r"|a mistake|false|a lie|my mistake)|(?:that|it) (?:wasn't|was not|(?P<still>isn't|is not)) (?:true|right|correct))"
    rf"{_ENDS}(?P<rest>.*)$",
    re.IGNORECASE,
)
"""A sentence that takes back what the user's turn before it said. With `now` or `still` it may be about an answer."""
WRONG_TOPIC: Final = re.compile(
    rf"{_OPENS}what i (?:just )?(?:said|wrote|told you) about (?P<topic>[^,.;:]{{3,60}}?) "
    r"(?:was|is|isn't|wasn't) (?:all )?(?:wrong|not true|true|right|correct|incorrect|a mistake)" + _ENDS,
    re.IGNORECASE,
)
"""A sentence that says that an earlier statement about a thing was wrong."""
OF_ANOTHER: Final = re.compile(
    r"\b(?:you|your|you're|answer|code|result|output|test|function|translation)\b", re.IGNORECASE
)
"""Words that make a sentence about an answer to the user."""
