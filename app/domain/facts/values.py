"""The value or the values that follow a statement's verb, and where they end."""

import re
from typing import Final

from app.domain.facts.names import hide_separators, show_separators
from app.domain.facts.phrases import one_of, word_set
from app.domain.facts.spelling import QUESTION_WORDS

MAX_VALUE: Final = 200
_MAX_WORDS: Final = 12
_BREAK: Final = re.compile(
    r"(?P<hard> [-–—]{1,3} |\.{2,}|…| \((?=[a-z])(?![^()]{0,80}\))|,? "
    + one_of(
        """because|cause|cuz|coz|since|but|although|though|if|unless|when|whenever|except|instead of|rather than|not
        |according to|now that|wherever|no matter
        |followed by|and (?:as for|when it comes to|regarding)|as a (?:child|kid
        |teen|teenager|boy|girl|baby)"""
    )
    + r"\b)|(?P<so>,? (?:so|as|which|while|where)\b)|(?P<soft>[,;](?= )(?: and\b)?| and\b)"
)
"""Signs and words after which a new clause may begin. A capital letter marks a title: "When Harry Met Sally"."""
_WORD: Final = re.compile(r"[\w']+")
_SUBJECTS: Final = word_set("""
    i i'm i've i'd i'll he she it we they you he's she's it's we're they're you're that's there there's here here's
    please let let's can could don't do what who when where why how which
    """)
"""Words in lower case that begin a clause."""
_FINITE: Final = word_set("""
    is are was were am has have had does did would should must isn't aren't wasn't weren't don't doesn't didn't can't
    won't haven't hasn't hadn't i'm it's that's we're they're you're i've i'd i'll dont doesnt didnt cant couldnt
    wont wouldnt isnt arent
    wasnt werent im ive thats theyre youre
    """)
"""Verb forms in lower case that no value has."""
_FAVORITES: Final = word_set("favorite favourite favorites favourites fav fave")
_REMARKS: Final = word_set("""
    thanks thank please especially mostly mainly usually always never lol haha ok okay though too just even depending
    like no yes yeah btw fyi obviously honestly sorry cheers hope by for right these at as of hands in preferably
    particularly whatever if simply probably maybe
    """)
"""Words in lower case that begin a remark after a comma."""
_NO_VALUE_START: Final = word_set("""
    when where what who whom how why that whether about because to for from in on at with of by than as not
    never so too very really pretty quite rather i you he she it we they this these those there here your his
    her our their whatever whichever whoever any anything all everything nothing none something somewhere many
    several probably perhaps maybe possibly likely supposedly apparently allegedly either neither up out over
    off back gone getting being becoming changing constantly hard impossible difficult tough easy unknown
    unclear undecided secret private unsure tbd tba todo n/a na null undefined blank insert different similar
    depends guess see ask same haven't hasn't still various numerous kinda sorta going coming playing losing winning
    missing doing airing sold closed
    based made broken amazing awesome boring guess some sometimes usually often rarely mostly mainly almost
    nearly prob somewhat between another more favorite favourite fav delicious beautiful expensive actually also
    above below yours mine hers ours theirs obvious
""")
"""Words in lower case that begin a clause, or tell about the favorite instead of naming it."""
_NO_VALUE: Final = re.compile(
    one_of(
        r"""the (?:same|ones?|best|worst|way|fact|thing|most|only|first|last|following)\b|an? (?:secret|mystery|lot
        |bit|tie|toss|tough|hard|difficult|matter|surprise|good|great|bad|nice|little|few)\b|one (?:of|that|which
        |where|who)\b|(?:something|someone|one) (?:that|which|who|i|you|like|with)\b|no idea\b|(?:kind|sort) of\b
        |(?:always|forever)\b|hm+\b|x{2,}\b|idk\b|dunno\b|good\b|great\b|cool\b|nice\b|bad\b|best\b|better\b
        |fine\b|old$|ready\b|late\b|long$|open\b|available\b|on (?:hold|sale)\b|complicated\b"""
    )
)
"""Words in lower case that begin no name."""
_PLACEHOLDERS: Final = word_set("tbd tba n/a none unknown nothing blank null not todo xx xxx xxxx")
_TEMPLATE: Final = re.compile(r"[\[<{][^\]>}]{0,60}[\]>}]|_{2,}|\$\{?\w|%s\b|\?{2,}|\|")
_LEAD: Final = re.compile(
    r"[\s:,]+|"
    + one_of(
        """definitely|both|defo|deffo|def|totally|100%|gotta be|still|now|currently|just|simply|obviously
        |clearly|always|of course|absolutely|honestly|easily
        |drumroll(?: please)?|without a doubt|hands down|by far|undoubtedly|actually|also|surely|certainly"""
    )
    + r"\b(?=[ ,:]),?"
)
_TRAIL: Final = re.compile(
    r"(?:[,\s]+"
    + one_of(
        """too|tho|though|fr|ngl|rn|atm|ofc|imho|as well|lol|lmao|ha(?:ha)+|btw|tbh|imo|by far|hands down
        |for sure|right now|for now
        |at the moment|these days|nowadays|of course|obviously|honestly|thanks|thank you|thx|please|now|anymore
        |etc|in (?:that|this|no)(?: particular| special| specific)? order|and so (?:on|forth)
        |respectively|always|again|today|actually|for (?:next time|later|the record
        |(?:future )?reference)"""
    )
    + r"|\s*(?::-?[)(DPp]|;-?\)|<3|\^\^|xD))[.!,]*$"
)
_EDGES: Final = " \t.,;:!?…\"'`*_~"
_DANGLING: Final = re.compile(r"[\s,]+(?:and|or|&)$")
_COMMA: Final = re.compile(r"[,;](?! D\.? ?C\b)(?: |$)")
_TIGHT: Final = re.compile(r"(?<=[^\W\d_])[,;](?=[^\W\d_])")
_SEMICOLON: Final = re.compile(r";(?: |$)")
_CHAIN: Final = re.compile(r" [>+|·•→] | then (?=[\w\"'])")
_SLASHED: Final = re.compile(r"[a-z]{2,30}(?: ?/ ?[a-z]{2,30}){1,20}")
_ASIDE: Final = re.compile(r" \((?=[a-z])[^()]{0,80}\)?$")
_LEADING_LINK: Final = re.compile(
    r"^(?:(?:also|then|and|followed by|after that|next|finally|lastly|last but not least) )+"
)
_INITIALS: Final = re.compile(r"(?<![^\s.])[^\W\d_]\.[^\W\d_]\.$")
_FIXED_PAIRS: Final = re.compile(
    r"\b"
    + one_of(
        """mac(?:aroni)?|fish|peanut butter|salt|cookies|ham|bacon|biscuits|rice|beans|chicken|gin|rock|drum|rhythm
        |bangers|peaches|strawberries|chips|bread|surf|pork|bubble|cheese|steak|spaghetti"""
    )
    + r" (?P<and>and) "
    + one_of(
        """cheese|chips|jelly|pepper|vinegar|cream|eggs|gravy|rice|beans|waffles|tonic|roll|bass|blues|mash|dip
        |butter|turf|squeak|crackers|meatballs|dumplings|onion"""
    )
    + r"\b",
    re.IGNORECASE,
)
"""Pairs that name one thing."""


def cut_values(text: str) -> tuple[str, str]:
    """Return the part of `text` that names values, and the rest, which begins at the next clause."""
    text = hide_separators(text)
    view = text.lower() if text.isupper() and text.isascii() else text
    lead = _skip_lead(view)
    first = len(view) - len(view[lead:].lstrip(_EDGES))
    for match in _BREAK.finditer(view, lead):
        if first < match.start() and _ends_values(match, view):
            end = match.start()
            dangling = _DANGLING.search(text, max(lead, end - 8), end)
            return show_separators(text[lead : dangling.start() if dangling else end].strip()), show_separators(
                text[end:]
            )
    return show_separators(text[lead:].strip()), ""


def cut_value(text: str) -> tuple[str, str]:
    """Return the part of `text` that names one value, and the rest. "A, B and C" is one value."""
    whole, rest = cut_values(text)
    hidden = hide_separators(whole)
    comma = _COMMA.search(hidden)
    if not comma or (comma[0] == ", " and _ends_with_and(hidden)):
        return whole, rest
    return whole[: comma.start()], whole[comma.start() :] + rest


def _ends_with_and(text: str) -> bool:
    last = text[max(text.rfind(","), text.rfind(";")) + 1 :]
    return " and " in last or " & " in last


def _skip_lead(text: str) -> int:
    """Return where the values begin: after signs and words such as "definitely"."""
    at = 0
    while match := _LEAD.match(text, at):
        at = match.end()
    return at


def _ends_values(match: re.Match[str], text: str) -> bool:
    """Tell whether a new clause or a remark follows this break."""
    if match["hard"]:
        return True
    following = _BREAK.search(text, match.end())
    piece = text[match.end() : following.start() if following else len(text)]
    words = _WORD.findall(piece)
    if not words:
        return not piece.strip(_EDGES) and not following
    subject = words[0] in _SUBJECTS or (words[0] == "I" and len(words) > 1 and words[1].islower())
    if match["so"]:
        return subject or match["so"].startswith(",") or match["so"].strip() in {"so", "which"}
    remark = match["soft"] in {",", ";"} and words[0] in _REMARKS
    return subject or remark or not (_FINITE | _FAVORITES).isdisjoint(words)


def split_values(text: str) -> list[str]:
    """Return the values of an enumeration: commas and the last "and" separate.

    After a comma before the last "and", an "and" inside a value stays. A part that names nothing empties the list.
    """
    text = hide_separators(_trim_trail(text))
    if text.isupper():
        text = text.replace(" AND ", " and ")
    text = text.replace(" as well as ", " and ")
    if "," not in text and ";" not in text:
        text = _CHAIN.sub(", ", text.replace("/", ", ") if _SLASHED.fullmatch(text) else text)
    if ", " not in text and "; " not in text:
        text = _TIGHT.sub(r"\g<0> ", text)
    separator = _SEMICOLON if "; " in text else _COMMA
    parts = [part for part in separator.split(text) if part.strip()]
    last = parts[-1].strip() if parts else ""
    if opened := re.match(r"(?:and|&|plus)(?: also| then| finally| lastly)? ", last):
        parts[-1] = last[opened.end() :]
        if "also" in opened[0] and len(parts) > 1:  # "red and blue, and also green"
            parts[-2:-1] = _split_last(parts[-2].strip(), alone=len(parts) == 2)
    elif parts:
        parts[-1:] = _split_last(last, alone=len(parts) == 1)
    named = [show_separators(_LEADING_LINK.sub("", part.strip())) for part in parts]
    values = [read_value(value) for value in named]
    return [value for value in values if value] if all(values) else []


def _split_last(part: str, *, alone: bool) -> list[str]:
    """Split the last part of an enumeration at its last "and", which is not inside a pair that names one thing.

    A part that is `alone` and has single words between several "and" is split at each.
    """
    fixed = {match.start("and") for match in _FIXED_PAIRS.finditer(part)}
    ands = list(re.finditer(r"(?:(?<= )(?:and|&)(?: also)?|(?<=\w)\+|(?<= )\+)(?= )", part))
    free = [match for match in ands if match.start() not in fixed]
    if not free:
        return [part]
    if alone and len(free) == len(ands) > 1:
        pieces = re.split(r" (?:and|&) ", part)
        if all(" " not in piece for piece in pieces):
            return pieces
    return [part[: free[-1].start()], part[free[-1].end() :]]


def read_value(text: str) -> str | None:
    """Return a value as its user spelled it, without quotes, Markdown marks and final punctuation.

    Return None if the text names nothing.
    """
    if len(text) > 4 * MAX_VALUE or _TEMPLATE.search(text):
        return None
    value = _ASIDE.sub("", _trim_trail(text).strip(_EDGES).lstrip("-–—• "))
    if _INITIALS.search(f"{value}.") and f"{value}." in text:
        value += "."
    value = value.rstrip(" (")
    if value.endswith(")") and value.count(")") > value.count("("):
        value = value[:-1].rstrip()
    if value.count("(") > value.count(")"):
        value += ")" if text.rstrip(_EDGES.replace("'", "")).endswith(")") else ""
    if value.count('"') % 2:  # '"Hey Jude" (The Beatles)' lost its first quote
        value = value.replace('"', "")
    return value if _names_thing(value) and value.lower() not in QUESTION_WORDS else None


def _trim_trail(text: str) -> str:
    """Remove remarks such as "too" and ":)" from the end."""
    end = len(text)
    while (match := _TRAIL.search(text, max(0, end - 40), end)) and match.start() > 0:
        end = match.start()
    return text[:end].strip()


def _names_thing(value: str) -> bool:
    """Tell whether a value names something: no clause, no placeholder and nothing too long."""
    words = value.split(maxsplit=_MAX_WORDS)
    if not words or len(value) > MAX_VALUE or len(words) > _MAX_WORDS:
        return False
    first = words[0].strip(_EDGES)
    if first in _NO_VALUE_START or first == "NOT" or _NO_VALUE.match(value):
        return False
    if value.casefold() in _PLACEHOLDERS:
        return False
    if first == "I" and (len(words) == 1 or words[1].islower()):
        return False
    if not (_FINITE | _FAVORITES).isdisjoint(words) or "or" in words:
        return False
    return any(char.isalnum() or ord(char) > 0x2190 for char in value)
