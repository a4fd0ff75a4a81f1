"""Questions in nine languages to memories in the same language, and to English ones.

    mnema bench languages [--part held_out] [--model multilingual-e5-small] [--languages en,de] [--json FILE]

Each file of a part of bench/languages has the same memories and questions in another language. Each language is a user
of its own in one installation. The memories are written as clients write them, and the questions asked with the default
settings.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final
from uuid import UUID

from app.bootstrap import Application, build_application
from app.domain.filters import Filters
from app.domain.memory.memory import NewMemory
from app.domain.principal import Principal
from app.usecases.recall.request import Query
from bench import throwaway

FOLDER: Final = Path(__file__).parent / "languages"
DEVELOPMENT: Final = "development"
PARTS: Final = (DEVELOPMENT, "held_out")
"""The parts: the first may be used to fit, the second is only measured."""
DEPTH: Final = 3
ENGLISH: Final = "en"
AGENT: Final = "supervisor"
CATEGORY: Final = "preferences"


@dataclass(frozen=True, slots=True)
class Question:
    """A question. `answer`: the key of the only memory that answers it, None if none does."""

    text: str
    answer: str | None


@dataclass(frozen=True)
class Corpus:
    """The memories and questions of one language, by their keys."""

    part: str
    language: str

    @cached_property
    def memories(self) -> Mapping[str, str]:
        """The texts of the memories."""
        return {line["memory"]: line["text"] for line in self._lines if "memory" in line}

    @cached_property
    def questions(self) -> Sequence[Question]:
        """The questions."""
        return [Question(line["text"], line["answer"]) for line in self._lines if "question" in line]

    @cached_property
    def _lines(self) -> list[dict[str, str]]:
        text = (FOLDER / self.part / f"{self.language}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


@dataclass(frozen=True, slots=True)
class LanguageFigures:
    """The results of one language.

    `within`, `across`: the share of answerable questions whose memory is among the first three, of memories in the same
    language and of English ones. `first`: the same for the first item. `needless`: the items for an unanswerable
    question. `stored`: the share of memories that became memories of their own. All are means over the questions.
    """

    language: str
    stored: float
    first: float
    within: float
    across: float
    needless: float


def known_languages() -> list[str]:
    """Return the languages that have a corpus, English first."""
    return sorted(
        (path.stem for path in (FOLDER / DEVELOPMENT).glob("*.jsonl")), key=lambda name: (name != ENGLISH, name)
    )


class Asker:
    """The installation, and the keys of the memories that it stores for each language."""

    def __init__(self, app: Application, principal: Principal) -> None:
        self._app = app
        self._principal = principal
        self._keys: dict[UUID, set[str]] = {}

    async def store_corpus(self, corpus: Corpus) -> float:
        """Store the memories. Return the share that became memories of their own."""
        ids = set()
        for key, text in corpus.memories.items():
            new = NewMemory(user_id=corpus.language, category=CATEGORY, text=text)
            written = await self._app.memory.write.write_memory(self._principal, new)
            assert written.id is not None
            ids.add(written.id)
            self._keys.setdefault(written.id, set()).add(key)
        return len(ids) / len(corpus.memories)

    async def ask_question(self, question: Question, user_id: str) -> list[set[str]]:
        """Return the keys of each item of the answer from a user's memories."""
        query = Query(AGENT, question.text, filters=Filters(user_id=user_id))
        answer = await self._app.recall.query.answer_query(self._principal, query)
        return [self._keys[item.memory.id] for item in answer.items]

    def memories_of(self, question: Question) -> set[UUID]:
        """Return the ids of the memories, in all languages, that answer a question."""
        return {id_ for id_, keys in self._keys.items() if question.answer in keys}


async def _measure_language(asker: Asker, corpus: Corpus, stored: float) -> LanguageFigures:
    own = [(question, await asker.ask_question(question, corpus.language)) for question in corpus.questions]
    english = [(question, await asker.ask_question(question, ENGLISH)) for question in corpus.questions]
    unanswerable = [len(items) for question, items in own if question.answer is None]
    return LanguageFigures(
        language=corpus.language,
        stored=round(stored, 3),
        first=_share_found(own, 1),
        within=_share_found(own, DEPTH),
        across=_share_found(english, DEPTH),
        needless=round(sum(unanswerable) / max(1, len(unanswerable)), 2),
    )


def _share_found(answers: Sequence[tuple[Question, list[set[str]]]], depth: int) -> float:
    found = [any(q.answer in keys for keys in items[:depth]) for q, items in answers if q.answer is not None]
    return round(sum(found) / len(found), 3)


async def _measure(site: throwaway.Site, part: str, languages: Sequence[str]) -> list[LanguageFigures]:
    async with build_application(site.home.server_settings(site.cluster)) as app:
        principal = await app.tenancy.tenants.authenticate(site.key)
        assert principal is not None
        asker = Asker(app, principal)
        corpora = {name: Corpus(part, name) for name in [ENGLISH, *languages]}
        stored = {name: await asker.store_corpus(corpus) for name, corpus in corpora.items()}
        return [await _measure_language(asker, corpora[name], stored[name]) for name in languages]


def run(part: str, model: str, languages: Sequence[str], say: Callable[[str], None]) -> list[LanguageFigures]:
    """Measure the languages of a part on a throw-away installation with this embedding model."""
    say(f"{part}, {model}: {', '.join(languages)}")
    with throwaway.using_model(model), throwaway.open_site(0) as site:
        return asyncio.run(_measure(site, part, languages))
