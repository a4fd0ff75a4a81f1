"""Writing rules for generated texts: the instructions in the prompts, and the check of a model's text.

Quoted words may break any rule. The word lists are English, so a text in another language is checked only for form and
length.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from app.domain import english
from app.domain.memory.memory import MemoryType
from app.domain.text_rules import TextLimits, normalise_text, sentence_ends, trim_text

_LISTED: Final = english.words("memory", "word_lists")
_EN: Final = english.patterns("reflection", "writing_rules")

Rule = Literal[
    "empty",
    "not_prose",
    "instruction",
    "fragment",
    "question",
    "leading_pronoun",
    "first_person",
    "not_mentioned",
    "about_the_text",
    "reported",
    "relative_time",
    "not_past",
    "too_many_sentences",
    "too_long",
]
CUTTABLE_RULES: Final = frozenset({"too_many_sentences", "too_long"})
"""Rules that a text can keep after it is shortened."""
MAX_SENTENCES: Final = 2
MIN_WORDS: Final = 3
MIN_CHARACTERS: Final = 6

PROMPT_RULES: Final[Mapping[MemoryType, str]] = {
    MemoryType.semantic: (
        'Write a complete, self-contained statement in the third person, beginning with whom it is about ("The user …")'
        " and without pronouns for them; neutral tone; 1-2 sentences; at most 280 characters. Name dates, never"
        ' "tomorrow" or "last week". State the fact itself, not that somebody said it, and nothing that is not there.'
    ),
    MemoryType.episodic: (
        "Past tense, third person, beginning with whom it is about; 1-2 sentences; at most 280 characters. Focus on"
        ' what was discussed, decided or done; exclude stable facts unless updated. Name dates, never "tomorrow" or'
        ' "last week".'
    ),
    MemoryType.insight: (
        'Third person, beginning with "The user", hedged where it is a guess ("The user perhaps …"); no pronouns for an'
        " AI; 1-2 sentences; at most 280"
        " characters. Do not repeat stated facts, and say nothing of what was not mentioned."
    ),
    MemoryType.summary: (
        'Plain sentences in the third person, beginning with whom it is about ("The user …"); no lists, no headings, no'
        ' instructions. Name dates, never "tomorrow" or "last week". Nothing that neither the old summary nor the'
        " messages say."
    ),
}
"""The instructions in the prompts for each generated type. A changed word needs new prompt versions."""

COMPLAINTS: Final[Mapping[str, str]] = {
    "empty": "is empty",
    "not_prose": "is a list, a heading or markup instead of sentences",
    "instruction": "gives instructions; a memory only states",
    "fragment": "is no complete sentence that says whom it is about",
    "question": "is a question",
    "leading_pronoun": "begins with a pronoun; name whom it is about",
    "first_person": "speaks as I, we or you; write in the third person",
    "not_mentioned": "says what is not known; leave it out",
    "about_the_text": "speaks about the conversation's text or an AI instead of the person",
    "reported": "reports that somebody said it; state the fact itself",
    "relative_time": "has a time like 'tomorrow'; name the date or leave it out",
    "not_past": "is not in the past tense",
    "too_many_sentences": f"has more than {MAX_SENTENCES} sentences",
    "too_long": "is too long",
}

_MARKUP: Final = re.compile(r"^[^\S\n]*+(?:[-*•#>{\[|]|\d++[.)]\s)|```|\*\*|^\w++(?: \w++)?+:\s", re.MULTILINE)
_ADVERB: Final = "also|always|just|never|now|often|really|still|usually"
_AUXILIARY: Final = "was|were|had|will|would|can|could|should|must|might|do not|don't|did not|didn't"
_VERB: Final = "|".join(sorted(_LISTED.verbs - _LISTED.not_after_i | {"am"}))
# a lower-case "i" counts only before English words: in other languages it means "in", "and" or "the"
_LOWER_I: Final = (
    rf"\bi(?:'(?:m|ve|d|ll)| (?:{_AUXILIARY}) \w++| (?:(?:{_ADVERB}) )?(?:{_VERB}))\b|\b(?:and|or) i\b"
    r"|^[Ii]m (?:an?|not|so|the)\b"
)
_FIRST_PERSON: Final = re.compile(
    r"\bI(?='|\s|,|$)|\b(?:[Mm]y|[Mm]yself|[Ww]e|[Oo]urs?|[Oo]urselves|[Yy]ou|[Yy]ours?|[Yy]ourself|me|us|[Ll]et's)\b"
    rf"|\b(?:MY|WE|YOU|YOUR)\b|{_LOWER_I}"
)

RuleTest = Callable[[str], object]


def _is_short(text: str) -> bool:
    """Tell whether the text has too few words for a sentence. In a script without spaces, characters count."""
    return len(text.split()) < MIN_WORDS and (text.isascii() or len(text) < MIN_CHARACTERS)


_COMMON_RULES: Final[tuple[tuple[Rule, RuleTest], ...]] = (
    ("instruction", _EN.instruction.search),
    ("leading_pronoun", _EN.leading.match),
    ("fragment", lambda text: _is_short(text) or _EN.subjectless.match(text)),
    ("question", lambda text: text.endswith("?")),
    ("first_person", lambda text: _FIRST_PERSON.search(_EN.numeral.sub(r"\1", text))),
    ("not_mentioned", _EN.not_mentioned.search),
    ("about_the_text", _EN.about.search),
)
_RULES_BY_TYPE: Final[Mapping[MemoryType, tuple[tuple[Rule, RuleTest], ...]]] = {
    MemoryType.semantic: (
        ("about_the_text", _EN.assistant.search),
        ("reported", _EN.reported.match),
        ("relative_time", _EN.relative.search),
    ),
    MemoryType.episodic: (
        ("relative_time", _EN.relative.search),
        ("not_past", lambda text: _EN.english.search(text) and not _EN.past.search(text)),
    ),
    MemoryType.insight: (("about_the_text", _EN.assistant.search), ("relative_time", _EN.relative.search)),
    MemoryType.summary: (("relative_time", _EN.relative.search),),
}
_EXEMPT: Final[Mapping[MemoryType, frozenset[str]]] = {
    MemoryType.summary: frozenset({"question", "not_mentioned", "about_the_text"}),  # a summary includes open questions
}


def broken_rule(text: str, type_: MemoryType, limits: TextLimits) -> Rule | None:
    """Return the first rule that a generated text of this type breaks; None if it may be stored."""
    clean = normalise_text(text)
    if not clean:
        return "empty"
    if _MARKUP.search(text.strip()):
        return "not_prose"
    unquoted = _EN.quoted.sub('""', clean)
    for rule, breaks in (*_COMMON_RULES, *_RULES_BY_TYPE.get(type_, ())):
        if rule not in _EXEMPT.get(type_, ()) and breaks(unquoted):
            return rule
    if type_ is not MemoryType.summary and _count_sentences(clean) > MAX_SENTENCES:
        return "too_many_sentences"
    return "too_long" if len(clean) > limits.limit_for(type_) else None


def shorten_text(text: str, type_: MemoryType, limits: TextLimits) -> str | None:
    """Return the text cut to MAX_SENTENCES and the type's length if necessary; None if it breaks another rule."""
    clean = normalise_text(text)
    if type_ is not MemoryType.summary and _count_sentences(clean) > MAX_SENTENCES:
        clean = clean[: sentence_ends(clean)[MAX_SENTENCES - 1]]
    clean = trim_text(clean, limits.limit_for(type_))
    return clean if broken_rule(text, type_, limits) in (None, *CUTTABLE_RULES) else None


def _count_sentences(clean: str) -> int:
    ends = sentence_ends(clean)
    return len(ends) + (not ends or ends[-1] < len(clean))
