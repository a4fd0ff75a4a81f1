"""Commands of a user about what is stored: "forget that …", "scratch that", and statements that end an earlier one.

A command must open its sentence, so that a report, a question, an example or a quotation is none. The words are
English; those of other languages are in the phrasebooks. In doubt there is no command. Everything takes linear time.
"""

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

from app.domain import english
from app.domain.languages import ENGLISH, detect_language
from app.domain.memory.instructions import read_instruction
from app.domain.memory.phrases import Kind, every_word
from app.domain.phrasebooks.phrasebook import split_sentences
from app.domain.recall.closing import closes_span, may_move, moves_away, only_denies, parse_own, tells_all
from app.domain.recall.phrasebook_closing import language_of
from app.domain.recall.statements import roots_of
from app.domain.recall.supersession import Statement
from app.domain.reflection.clauses import read_sentence, states_nothing
from app.domain.reflection.notes import FICTION
from app.domain.text_rules import one_line, sentence_ends

_EN: Final = english.patterns("reflection", "commands")
_WORDS: Final = english.words("reflection", "commands")

MAX_CHARACTERS: Final = 600
"""A longer message has no command."""
MAX_TAKEN_BACK: Final = 2
"""The most sentences of a turn that "scratch that" takes back. What of a longer one it means is not clear."""
_MOST_TOPIC_WORDS: Final = 5
_OLD: Final = frozenset({"old", "former", "previous", "all", "whole", "entire"})


Action = Literal["supersede", "retract", "forget"]
"""The effect of a command on a stored statement: it was true, it was wrong, or it is to be deleted."""


@dataclass(frozen=True, slots=True)
class StoredStatement:
    """A statement stored before the message: a memory, or a turn of the user.

    `turn`: what identifies the turn that it is, or was drawn from. `from_previous`: that is the user's turn before the
    message in its thread.
    """

    statement: Statement
    is_turn: bool = False
    turn: Hashable = None
    from_previous: bool = False


@dataclass(frozen=True, slots=True)
class TurnCommands:
    """The commands of a message.

    - `statements`: sentences that state something, which may end the span of an earlier statement.
    - `forgotten`: statements to forget. `topics`: things of the user of which everything is to be forgotten.
    - `wrong_topics`: things of which the user's earlier statement was wrong.
    - `ended_rules`: what a standing instruction ordered that no longer holds.
    - `takes_back`: the user's turn before this one was wrong. `if_unanswered`: only if nobody answered it in between,
      because "that's wrong" may be about the answer.
    """

    statements: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    wrong_topics: tuple[str, ...] = ()
    ended_rules: tuple[str, ...] = ()
    takes_back: bool = False
    if_unanswered: bool = False

    def __bool__(self) -> bool:
        return self != TurnCommands()

    @property
    def only_denies(self) -> bool:
        """True if no statement names what is so now: "I no longer eat meat"."""
        return all(map(only_denies, self.statements))

    def choose_actions(self, stored: Sequence[StoredStatement], said: Statement) -> dict[int, Action]:
        """Return what the message `said` does to stored statements, by their places.

        A statement that something has ended, and one that names another home or workplace, close memories and turns.
        Another new value closes neither: what is drawn from it closes memories, and a turn is what was said. A turn of
        one statement and what was drawn from it share their fate.
        """
        chosen = {at: action for at, one in enumerate(stored) if (action := self._action_on(one, said)) is not None}
        by_turn = {stored[at].turn: action for at, action in chosen.items() if stored[at].turn is not None}
        single = {one.turn for one in stored if one.is_turn and _single_statement(one.statement.text) is not None}
        for at, one in enumerate(stored):
            if at not in chosen and one.turn in single and one.turn in by_turn:
                chosen[at] = by_turn[one.turn]
        return chosen

    def _action_on(self, stored: StoredStatement, said: Statement) -> Action | None:
        told = stored.statement
        if told.stated_at >= said.stated_at or told.speaker != said.speaker:
            return None
        if self.takes_back and stored.from_previous and (not stored.is_turn or _may_be_taken_back(told.text)):
            return "retract"
        if any(_is_ordered_by(stored, one) for one in self.ended_rules):
            return "supersede"
        text = _single_statement(told.text) if stored.is_turn else told.text
        if text is None:
            return None  # a turn of several sentences is about many things
        if any(tells_all(text, one) for one in self.forgotten) or any(_is_about(text, one) for one in self.topics):
            return "forget"
        if any(_is_about(text, one) for one in self.wrong_topics):
            return "retract"
        older = replace(told, text=text)
        told_ends = (one for one in self.statements if only_denies(one) or moves_away(text, one))
        return "supersede" if any(closes_span(older, replace(said, text=one)) for one in told_ends) else None


def read_commands(message: str) -> TurnCommands:
    """Return the commands of a message. One with code, a joke, a story or a text to work on has none."""
    if len(message) > MAX_CHARACTERS or "\n\n" in message or states_nothing(message) or FICTION.search(message):
        return TurnCommands()
    if detect_language(message) != ENGLISH:
        return _read_foreign(message)
    statements: list[str] = []
    forgotten: list[str] = []
    topics: list[str] = []
    wrong: list[str] = []
    ended: list[str] = []
    taken: re.Match[str] | None = None
    for number, sentence in enumerate(_sentences_of(message)):
        if '"' in sentence:
            continue
        if (topic := _read_topic(sentence)) is not None:
            topics.append(topic)
        elif (what := _read_forgotten(sentence)) is not None:
            forgotten.append(what)
        elif (topic := _read_wrong_topic(sentence)) is not None:
            wrong.append(topic)
        elif (rule := _read_ended_rule(sentence)) is not None:
            ended.append(rule)
        elif number == 0 and (taken := _take_back(sentence, message)):
            continue
        elif (told := _read_statement(sentence)) is not None and (only_denies(told) or may_move(told)):
            statements.append(told)  # no other sentence ends anything
    return TurnCommands(
        statements=tuple(statements),
        forgotten=tuple(forgotten),
        topics=tuple(topics),
        wrong_topics=tuple(wrong),
        ended_rules=tuple(ended),
        takes_back=taken is not None,
        if_unanswered=taken is not None and bool(taken["now"] or taken["still"]),
    )


def _read_foreign(message: str) -> TurnCommands:
    """Return the commands of a message in a language with a phrasebook."""
    if (language := language_of(message)) is None:
        return TurnCommands()
    sentences = split_sentences(message)
    if language.takes_back(sentences[0]):
        return TurnCommands(takes_back=True, if_unanswered=language.is_present(sentences[0]))
    forgotten = (language.read_forgotten(sentence) for sentence in sentences)
    statements = (sentence for sentence in sentences if language.is_denial(sentence))
    return TurnCommands(tuple(statements), tuple(what for what in forgotten if what))


def _single_statement(text: str) -> str | None:
    """Return what a turn of one sentence states, None for any other turn."""
    sentences = list(_sentences_of(text[: MAX_CHARACTERS + 1]))
    return _read_statement(sentences[0]) if len(sentences) == 1 and len(text) <= MAX_CHARACTERS else None


def _may_be_taken_back(text: str) -> bool:
    """Tell whether "scratch that" can mean a turn as a whole: it is short, and asks nothing."""
    sentences = list(_sentences_of(text))
    return len(sentences) <= MAX_TAKEN_BACK and not any(sentence.endswith("?") for sentence in sentences)


def _sentences_of(message: str) -> Iterator[str]:
    text = one_line(message)
    start = 0
    for end in (*sentence_ends(text), len(text)):
        if sentence := text[start:end].strip():
            yield sentence
        start = end


def _only_asks(sentence: str) -> bool:
    """Tell whether a sentence is a question that requests nothing."""
    return sentence.endswith("?") and not sentence.lower().startswith(("can", "could", "would", "will", "please"))


def _read_forgotten(sentence: str) -> str | None:
    if _only_asks(sentence):
        return None
    found = _EN.forget_statement.match(sentence.rstrip(" .!?"))
    if found is None or _EN.no_forgetting.search(found["what"]):
        return None
    return found["what"]


def _read_topic(sentence: str) -> str | None:
    if _only_asks(sentence):
        return None
    found = _EN.forget_topic.match(sentence.rstrip(" .!?"))
    topic = (found["told"] or found["own"] or found["kept"]) if found else None
    if topic is None or _EN.no_forgetting.search(topic) or len(topic.split()) > _MOST_TOPIC_WORDS:
        return None
    return topic


def _read_wrong_topic(sentence: str) -> str | None:
    found = _EN.wrong_topic.match(sentence)
    return found["topic"] if found else None


def _read_ended_rule(sentence: str) -> str | None:
    """Return what a user says that the assistant need not do any more. It must say so: "any more", "stop"."""
    found = _EN.ended_rule.match(sentence)
    return found["rule"] if found and (found["more"] or found["stop"]) else None


def _is_ordered_by(stored: StoredStatement, words: str) -> bool:
    """Tell whether a stored statement is a standing instruction that names all words of what it orders.

    In "reply in German" the language counts, not the verb.
    """
    text = stored.statement.text
    if read_instruction(text) is None or (stored.is_turn and not _may_be_taken_back(text)):
        return False
    named = roots_of(w for w in every_word(words) if w.kind not in _SMALL)
    named = roots_of(w for w in every_word(_EN.replies.sub(" ", words)) if w.kind not in _SMALL) or named
    return bool(named - _common_roots()) and named <= roots_of(every_word(text))


@cache
def _common_roots() -> frozenset[str]:
    """Return the roots of verbs that many instructions have: "You don't have to use it any more" names none."""
    forms = (f"{verb} {verb.removesuffix('e')}ing" for verb in _WORDS.common)
    return frozenset(roots_of(every_word(" ".join(forms))))


def _take_back(sentence: str, message: str) -> re.Match[str] | None:
    if sentence.endswith("?") or _EN.of_another.search(message):
        return None
    return _EN.takes_back.match(sentence)


def _read_statement(sentence: str) -> str | None:
    """Return a sentence that states something plainly, without its opening words."""
    opener = _EN.opener.match(sentence)
    body = sentence[opener.end() :] if opener else sentence
    read = read_sentence(body) if body else None
    return body if read is not None and not read.quotes and not read.labels else None


def _is_about(text: str, topic: str) -> bool:
    """Tell whether a statement of the user's own names all words of a topic."""
    named = roots_of(w for w in every_word(topic) if w.kind not in _SMALL and w.key not in _OLD)
    told = parse_own(text)
    others = (told.names | told.owners) - {"user"}
    return bool(named) and not others and named <= roots_of(told.all_words)


_SMALL: Final = frozenset({Kind.SEPARATOR, Kind.FUNCTION, Kind.PREPOSITION, Kind.USER, Kind.BE, Kind.PRONOUN})
