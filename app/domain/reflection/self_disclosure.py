"""The self-disclosure rule: does a short turn state a fact of its speaker's life, so that a model call is worth it?

Such a clause is in the first person. It has a verb of state, possession, preference, change or plan, and an object.
Questions, requests, suppositions, quotations, code and talk about the conversation do not count. The words are English.
A doubt means "no": an unread turn may cost a fact, a read one costs tokens.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import dropwhile
from typing import Final

from app.domain.text_rules import normalise_text


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_QUOTED: Final = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)")
_CODE: Final = re.compile(r"[{}=<>`\\]|;$|\w\(|\s--?\w+\s|\bSELECT\b|^(?:git|def|import|npm|pip|sudo)\s")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_SUPPOSED: Final = re.compile(r"\b(?:if|whether|suppose|supposing|imagine|pretend|assume|unless|would have)\b")
_CLAUSE: Final = re.compile(r"[,;]\s*|\s[-–—]+\s|\s(?:and|but|so|because|though|since|that|as)\s(?=(?:i|my|we|our)\b)")
_OPENERS: Final = _word_set(
    "hi hello hey ok okay well yes yeah no nope also actually btw oh thanks sorry and but so because since though fyi "
    "please note that now today yesterday"
)
_ADVERBS: Final = _word_set(
    "just really always usually often also still now never currently recently finally only mostly generally sometimes "
    "actually already both even absolutely very quite strictly all not longer no do does did"
)
_EXPANDED: Final = (
    (re.compile(r"\b(i|we|you)'m\b|\bim\b"), "i am"),
    (re.compile(r"\b(i|we)'ve\b|\bive\b"), r"\1 have"),
    (re.compile(r"\b(i|we)'ll\b"), r"\1 will"),
    (re.compile(r"\b(i|we)'d\b"), r"\1 would"),
    (re.compile(r"\bwe're\b"), "we are"),
    (re.compile(r"\b(?:can't|cannot)\b"), "can not"),
    (re.compile(r"\b(\w+)n't\b"), r"\1 not"),
)
_WORD: Final = re.compile(r"\w[\w'-]*")

_STATES: Final = _word_set(
    "live work study speak wear drive own use take play ride teach support collect volunteer belong suffer eat drink "
    "cook run rent weigh identify earn commute grew come came attend manage breed grow practise practice smoke lead"
)
_PREFERENCES: Final = _word_set("like love hate prefer dislike enjoy adore fear loathe favour favor")
_CHANGES: Final = _word_set(
    "moved married divorced sold bought quit left joined became switched adopted broke gave changed stopped started "
    "retired graduated inherited founded lost resigned separated relocated enrolled converted immigrated emigrated"
)
_GOT: Final = _word_set("married divorced engaged promoted fired pregnant hired custody tenure") | {"laid", "accepted"}
_ABILITIES: Final = _word_set(
    "eat drink swim drive ride cook tolerate stand digest hear walk lift climb dance sing have"
)
_PLANS: Final = _word_set(
    "learn become move run study buy marry retire start join fly travel visit adopt quit graduate sell open found "
    "climb emigrate live own have lose stop switch train"
)
_DOING: Final = _word_set(
    "planning training learning saving moving flying studying expecting living retiring raising dating renting "
    "recovering suffering applying starting"
)
_JOB: Final = _word_set("as at for nights shifts part-time full-time remotely")
_BOOK: Final = _word_set("novel book thesis dissertation memoir memoirs")
_TRAITS: Final = _word_set(
    "allergic intolerant vegan vegetarian diabetic pregnant married divorced widowed retired unemployed self-employed "
    "deaf blind dyslexic autistic asthmatic celiac coeliac lactose single engaged bilingual gay lesbian bisexual trans "
    "nonbinary disabled jewish muslim christian buddhist hindu catholic sober fond scared terrified"
)
_BORN: Final = _word_set("born raised promoted diagnosed fired hired adopted married divorced laid a an")
_POSSESSION_VERBS: Final = _word_set(
    "is are was were has have had lives live works work plays play loves love likes like hates hate prefers died "
    "moved uses use teaches taught broke hurts got started turned studies speaks runs drives owns left does do goes "
    "passed starts begins costs needs wants"
)
_OBJECTLESS_VERBS: Final = _word_set("died hurts retired")

_PARTICLES: Final = _word_set("to in at as on for up from with off down out of")
_POINTERS: Final = _word_set(
    "it this that these those them one ones so to too what how why where who which when something anything nothing "
    "everything him her the here there there's"
)
"""First words of an object that refers to the conversation or to something unnamed."""
_CONVERSATION_NOUNS: Final = _word_set(
    "question questions idea ideas problem problems issue issues error errors bug bugs code script file files text "
    "essay sentence sentences paragraph title answer answers reply response summary version option example examples "
    "list table prompt prompts message messages step steps word words translation result results output input page "
    "link image picture document article program function explanation feedback clue doubt doubts point guess "
    "trouble package command branch request timeout previous understanding apologies turn opinion time moment "
    "comment data column row spreadsheet email query format draft conversation chat suggestion intention assumption "
    "server app apps button field fields string variable repo repository api endpoint database dataset website "
    "browser settings build deploy container cluster slide slides report letter array class module library folder "
    "directory terminal console process test tests line lines screen cursor internet connection"
)
_YOU: Final = _word_set("you your yours yourself you're")
_OFTEN: Final = re.compile(
    r"\b(?:every (?!time)\w+|each \w+|(?:once|twice|times) a \w+|daily|weekly|always|usually|"
    r"on (?:mon|tues|wednes|thurs|fri|satur|sun)days)\b"
)
_DIET: Final = re.compile(r"^on (?:an? |my )?(?:[\w-]+ )?(?:diet|leave|medication|insulin|antibiotics|sabbatical)\b")
_CALLED: Final = re.compile(r"^(?:please )?call me [a-z]")


def discloses_fact(text: str) -> bool:
    """Tell whether a clause states something that the speaker is, has, likes, did or plans outside the conversation."""
    plain = normalise_text(text)
    if _CODE.search(plain):
        return False
    return any(_clause_discloses(clause) for clause in _split_clauses(_QUOTED.sub(' " ', plain)))


def _split_clauses(text: str) -> Iterator[str]:
    """Yield the statements of a text, without the text after a colon. Names keep their capitals."""
    for sentence in _SENTENCE.split(text):
        stated = sentence.partition(":")[0]
        if not sentence.endswith("?") and not _SUPPOSED.search(stated.casefold()):
            low = stated.casefold()
            starts = [0, *(match.end() for match in _CLAUSE.finditer(low))]
            ends = [*(match.start() for match in _CLAUSE.finditer(low)), len(low)]
            yield from (stated[start:end] for start, end in zip(starts, ends, strict=True))


def _clause_discloses(clause: str) -> bool:
    low = clause.casefold().replace("by the way", "")
    for pattern, full in _EXPANDED:
        low = pattern.sub(full, low)
    words = _drop_leading(_OPENERS, _WORD.findall(low))
    if len(words) < 2 or _YOU & set(words):
        return False
    if words[0] in {"my", "our"}:
        return _my_clause_discloses(words[1:])
    if _CALLED.match(" ".join(words)):
        return True
    return words[0] in {"i", "we"} and _i_clause_discloses(words[1:], clause)


def _my_clause_discloses(words: Sequence[str]) -> bool:
    """Match "My sister Ana is vegan": an owned thing or person, a verb and an object."""
    at = next((n for n, word in enumerate(words[:6]) if word in _POSSESSION_VERBS and n), None)
    if at is None or _CONVERSATION_NOUNS & set(words[:at]):
        return False
    return words[at] in _OBJECTLESS_VERBS or len(words) > at + 1


def _i_clause_discloses(words: Sequence[str], clause: str) -> bool:
    often = bool(_OFTEN.search(" ".join(words)))
    if words[:2] == ["used", "to"]:
        return len(words) > 3
    rest = _without_adverbs(words)
    if not rest or _CONVERSATION_NOUNS & set(rest):
        return False
    verb, rest = rest[0], rest[1:]
    if verb in {"am", "are"}:
        return _be_phrase_discloses(rest, clause)
    if verb in {"was", "were"}:
        return rest[:1] != [] and rest[0] in _BORN
    if verb in {"have", "had"}:
        return _have_phrase_discloses(rest)
    if verb in {"will", "would", "want", "plan", "hope", "intend", "can"}:
        return _plan_phrase_discloses(verb, rest)
    if verb == "got":
        return rest[:1] != [] and (rest[0] in _GOT or (rest[0] in {"a", "an"} and len(rest) > 1))
    if verb in _PREFERENCES | _STATES | _CHANGES:
        return _has_object(rest, verb)
    return often and _has_object(rest, verb)


def _without_adverbs(words: Sequence[str]) -> list[str]:
    return _drop_leading(_ADVERBS, words)


def _drop_leading(openers: Collection[str], words: Sequence[str]) -> list[str]:
    return list(dropwhile(openers.__contains__, words))


def _be_phrase_discloses(words: Sequence[str], clause: str) -> bool:
    words = _without_adverbs(words)
    if not words:
        return False
    first, more = words[0], len(words) > 1
    if first in {"a", "an"}:
        return more and words[1] not in {"bit", "little"}
    if first == "afraid":
        return words[1:2] == ["of"]
    if first in {"getting", "being"}:
        return words[1:2] != [] and words[1] in _GOT
    if first == "going":
        return words[1:2] == ["to"] and words[2:3] != [] and words[2] in _PLANS
    if first in {"working", "writing"}:
        return bool(_JOB & set(words[1:2]) or _BOOK & set(words))
    if first in _DOING:
        return more
    if first in {"from", "into"} or first.isdecimal():
        return first.isdecimal() or (more and words[1] not in _POINTERS)
    named = re.search(r"(?:'m|\b[ia]m) ([A-Z]\w+|[a-z]+-[a-z]+ed|[a-z]+-blind)\b", clause)
    return first in _TRAITS or named is not None or bool(_DIET.match(" ".join(words)))


def _have_phrase_discloses(words: Sequence[str]) -> bool:
    words = _without_adverbs(words)
    if words[:1] == ["to"]:
        return False
    if words[:1] == ["been"]:
        words = _without_adverbs(words[1:])
        if not words or not (words[0] in _TRAITS or words[0].endswith("ing") or words[0] == "to"):
            return False
        return _has_object(words[1:], words[0])
    if words[:1] == ["got"]:
        words = words[1:]
    if words[:1] != [] and words[0] in _CHANGES:
        return _has_object(words[1:])
    return _has_object(words)


def _plan_phrase_discloses(verb: str, words: Sequence[str]) -> bool:
    """Match a plan or an ability. "I want a shorter answer" is neither."""
    words = _without_adverbs(words)
    if verb == "can":
        return words[:1] != [] and words[0] in _ABILITIES and (words[0] == "swim" or _has_object(words[1:]))
    if verb == "would":
        wish = words[:1] != [] and words[0] in {"like", "love"} and words[1:2] == ["to"]
        return words[:1] == ["rather"] or (wish and words[2:3] != [] and words[2] in _PLANS and _has_object(words[3:]))
    if verb != "will":
        if words[:1] != ["to"]:
            return False
        words = words[1:]
    return words[:1] != [] and words[0] in _PLANS and (words[0] == "retire" or _has_object(words[1:]))


def _has_object(words: Sequence[str], verb: str = "") -> bool:
    """Tell whether there is an object that makes sense outside the conversation, unlike "the second one" or "it"."""
    if verb.startswith(("play", "practi")) and words[:1] == ["the"]:
        words = words[1:]
    if words[:1] == ["the"]:
        return False
    words = _without_adverbs(_drop_leading(_PARTICLES, words))
    return bool(words) and (words[0] not in _POINTERS or (words[0] == "the" and len(words) > 1))
