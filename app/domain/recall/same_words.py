"""Word lists of the rule for near-duplicates: English words and phrases that say the same in any statement.

All lower case, in the parser's form: without articles, without the -s of a verb or a plural. "not" stands without "do".
A word belongs here only if exchanging it never changes what a statement says; a doubtful one is left out.
"""

from typing import Final


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


SYNONYMS: Final = {
    **{"enjoy": "like", "enjoyed": "liked", "detest": "hate", "loathe": "hate", "despise": "hate"},
    **{"purchase": "buy", "purchased": "bought", "purchasing": "buying", "reside": "live", "residing": "living"},
    **{"commence": "start", "commenced": "started", "begin": "start", "began": "started", "beginning": "starting"},
    **{"automobile": "car", "bicycle": "bike", "telephone": "phone", "television": "tv", "photograph": "photo"},
    **{"physician": "doctor", "coworker": "colleague", "apartment": "flat", "movie": "film", "autumn": "fall"},
    **{"mom": "mother", "mum": "mother", "dad": "father", "grandma": "grandmother", "grandpa": "grandfather"},
    **{"kid": "child", "kids": "children", "attorney": "lawyer", "refrigerator": "fridge", "tummy": "stomach"},
    **{
        "km": "kilometer",
        "kilometre": "kilometer",
        "kg": "kilogram",
        "cm": "centimeter",
        "hr": "hour",
        "min": "minute",
    },
    **{"percent": "%", "usd": "$", "eur": "€", "euro": "€", "dollar": "$", "named": "called", "scared": "afraid"},
    **{"everyone": "everybody", "someone": "somebody", "nobody": "noone", "anyone": "anybody", "okay": "ok"},
    **{"whilst": "while", "amongst": "among", "thx": "thanks", "u": "you", "pls": "please"},
}
PHRASES: Final = {
    tuple(phrase.split()): tuple(plain.split())
    for phrase, plain in {
        "not like": "dislike",
        "not enjoy": "dislike",
        "no one": "noone",
        "be not able to": "can not",
        "not be able to": "can not",
        "be unable to": "can not",
        "be able to": "can",
        "be employed by": "work for",
        "be employed at": "work at",
        "be employed as": "work as",
        "be living": "live",
        "be residing": "live",
        "be working as": "work as",
        "be working at": "work at",
        "be working for": "work for",
        "be fond of": "like",
        "be fan of": "like",
        "can not stand": "hate",
        "can not bear": "hate",
        "be not married": "be unmarried",
        "be not employed": "be unemployed",
        "'s name be": "be called",
        "as well as": "and",
        "per day": "daily",
        "every day": "daily",
        "per week": "weekly",
        "every week": "weekly",
        "per month": "monthly",
        "every month": "monthly",
        "united kingdom": "uk",
        "united states of america": "usa",
        "united states": "usa",
        "new york city": "nyc",
        "european union": "eu",
    }.items()
}
LONGEST_PHRASE: Final = max(map(len, PHRASES))

OPENINGS: Final = (
    ("by", "way"),
    ("just", "so", "you", "know"),
    ("for", "your", "information"),
    ("please", "note", "that"),
    ("note", "that"),
    ("btw",),
    ("fyi",),
    ("oh",),
    ("and",),
)
"""Openings that say nothing, with or without a comma."""
CALLS: Final = _word_set("well ok okay hey hi hello anyway actually so yes yeah")
"""Openings that say nothing if a comma follows."""
REPORTING: Final = _word_set(
    "say said tell told think thought believe hope plan promise promised decide decided want know knew hear heard mean "
    "ask asked claim remember forgot forget announce announced suggest suggested mention mentioned that who whom which "
    "whose what when where why how because if unless until while although though but or and than"
)
"""Words of a second clause: a phrase at the start or the end may belong to either."""
PLACING: Final = _word_set("at in as on during since near")
"""Prepositions of phrases about a time, a place or a part. Two of them may change their places."""
