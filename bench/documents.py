"""Answers from documents: questions about a folder that is indexed as a source, through the real use-cases.

    mnema bench documents FOLDER [--vectors FILE]

The folder is that of the sources of Python's documentation, such as html/_sources of Debian's package python3.11-doc
(Copyright Python Software Foundation). Only questions and quotes of a few words are part of this project.
"""

import asyncio
import hashlib
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import asyncpg
import numpy as np
import yaml
from numpy.typing import NDArray

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.model import default_model
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.domain.recall.scoring import ScoredCandidate
from app.domain.sources.index_job import IndexCause, IndexJobKind
from app.domain.sources.source import NewSource, SourceKind
from app.ports import Embedder, Embedding
from app.providers.embeddings.local import LocalEmbedder
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.sources.sources import SourceStorage
from app.usecases.recall.request import Query
from app.usecases.recall.search import SearchQuery
from bench import throwaway
from bench.bm25 import Bm25
from bench.documents_questions import HALVES, Question, Span, load_questions, right_spans

AGENT, CATEGORY, USER = "researcher", "knowledge", "maya"
TOP: Final = 5
SLICES: Final = 600
"""The most slices of the index job."""
ALONE: Final[dict[str, dict[str, Any]]] = {
    "words alone": {"fusion": "zscore", "dense": 0.0, "lexical": 1.0, "late": 0.0},
    "vectors alone": {"fusion": "zscore", "dense": 1.0, "lexical": 0.0, "late": 0.0},
}
"""Profiles that rank chunks by one score."""
MODES: Final = ("BM25", *ALONE, "search", "query, 512 tokens", "query, 2048 tokens")
_CHUNKS: Final = """
SELECT f.path, c.start_at, c.end_at,
       ARRAY(SELECT w.lexeme FROM unnest(m.tsv) w WHERE w.positions IS NOT NULL) AS words,
       ARRAY(SELECT cardinality(w.positions) FROM unnest(m.tsv) w WHERE w.positions IS NOT NULL) AS counts
FROM chunks c JOIN files f ON f.id = c.file_id JOIN memories m ON m.id = c.memory_id ORDER BY f.path, c.ordinal
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """The relevance signals of a question's best ten chunks, with the labels of those that answer it."""

    half: str
    answerable: bool
    signals: NDArray[np.float64]
    labels: NDArray[np.bool_]


@dataclass(slots=True)
class DocumentFigures:
    """The results: one row and one sample for each question.

    `wrong_places` are answers whose text is not in the file at the place that they name.
    """

    chunks: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    positions: int = 0
    wrong_places: int = 0
    times_ms: list[float] = field(default_factory=list)

    def mean_of(self, name: str, half: str, *, answerable: bool) -> float:
        """Return the mean of a figure over the questions of a half that have an answer, or have none."""
        chosen = [float(r[name]) for r in self.rows if r["half"] == half and r["answerable"] == answerable]
        return sum(chosen) / len(chosen)

    def summary(self) -> dict[str, dict[str, float]]:
        """Return the figures of each half by name."""
        names = {f"recall@5 of {mode}": (f"right: {mode}", True) for mode in MODES}
        names |= {
            "first result is right": ("first", True),
            "results of an answerable question": ("count", True),
            "results of an unanswerable question": ("count", False),
            "nothing for an unanswerable question": ("nothing", False),
            "nothing for an answerable question": ("nothing", True),
        }
        return {
            half: {name: self.mean_of(key, half, answerable=answerable) for name, (key, answerable) in names.items()}
            for half in HALVES
        }


class RememberingEmbedder(LocalEmbedder):
    """The local model, with the embeddings of an earlier run."""

    def __init__(self, cache_dir: Path, known: dict[bytes, Embedding], model: str) -> None:
        super().__init__(cache_dir, threads=2, name=model)
        self.known = known

    async def _encode_uncached(self, texts: list[str]) -> list[Embedding]:
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        new = [text for text, key in zip(texts, keys, strict=True) if key not in self.known]
        made = iter(await super()._encode_uncached(new) if new else ())
        for key in keys:
            if key not in self.known:
                self.known[key] = next(made)
        return [self.known[key] for key in keys]


def copy_documents(folder: Path, root: Path) -> dict[str, str]:
    """Copy the folder and return its texts by path. Sphinx names its sources `.rst.txt`; here they end in `.rst`."""
    texts = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            path = str(file.relative_to(folder)).replace(".rst.txt", ".rst")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, root / path)
            texts[path] = file.read_bytes().decode("utf-8", "replace")
    return texts


def write_config(folder: Path) -> Path:
    """Write the configuration with the profiles of ALONE to `folder`."""
    shutil.copytree(CONFIG_DIR, folder / "config")
    file = folder / "config" / "policies.yaml"
    policies = yaml.safe_load(file.read_text(encoding="utf-8"))
    policies["profiles"] |= ALONE
    file.write_text(yaml.safe_dump(policies), encoding="utf-8")
    return folder / "config"


async def index_folder(app: Application, principal: Principal, root: str) -> None:
    """Index the folder as a source of all users."""
    source = await SourceStorage(app.parts.uow).create_source(
        principal, NewSource("documents", SourceKind.FOLDER, CATEGORY, root_path=root)
    )
    jobs = IndexJobStorage(app.parts.uow)
    job = await jobs.queue_job(principal, source.id, IndexJobKind.SYNC, IndexCause.ADDED)
    assert job is not None
    for _slice in range(SLICES):
        if await app.jobs.run.run_job(principal.tenant_id, job.job_id, "bench") != "retry":
            break
        await asyncio.sleep(0.1)
    async with app.parts.uow.read(principal) as tx:
        done = await jobs.get_job(tx, principal, job.id)
    if done is None or done.state != "done":
        raise RuntimeError(f"the folder was not indexed: {done}")


class _Asking:
    """The questions, asked one after another."""

    def __init__(self, app: Application, principal: Principal, texts: dict[str, str]) -> None:
        self._app = app
        self._principal = principal
        self._texts = texts
        self.figures = DocumentFigures()

    async def ask_all(self, sql: asyncpg.Connection, questions: Sequence[Question]) -> None:
        """Ask every question in every mode."""
        rows = await sql.fetch(_CHUNKS)
        spans = [Span(row["path"], row["start_at"], row["end_at"]) for row in rows]
        bm25 = Bm25([dict(zip(row["words"], row["counts"], strict=True)) for row in rows])
        self.figures.chunks = len(rows)
        for question in questions:
            right = right_spans(question, spans, self._texts)
            words = await sql.fetchval("SELECT tsvector_to_array(to_tsvector('english', $1))", question.text)
            found = {"BM25": [spans[at] for at in bm25.best_texts(words, TOP)]}
            for name in ALONE:
                found[name] = await self._search(question, profile=name, min_relevance=0.0)
            started = time.perf_counter()
            found["search"] = await self._search(question)
            self.figures.times_ms.append((time.perf_counter() - started) * 1000)
            for tokens in (512, 2048):
                found[f"query, {tokens} tokens"] = await self._query(question, tokens)
            await self._search(question, neighbours=2)
            self._add_row(question, right, found)
            await self._sample(question, right)

    async def _search(self, question: Question, neighbours: int = 0, **fields: Any) -> list[Span]:
        query = SearchQuery(
            question.text,
            Filters(USER),
            types=frozenset({MemoryType.chunk}),
            top_k=TOP,
            neighbours=neighbours,
            **fields,
        )
        answer = await self._app.recall.search.search_memories(self._principal, query)
        return [self._check_place(result.place or {}, result.text) for result in answer.results]

    async def _query(self, question: Question, tokens: int) -> list[Span]:
        query = Query(AGENT, question.text, (), Filters(USER), budget_tokens=tokens)
        answer = await self._app.recall.query.answer_query(self._principal, query)
        assert answer.tokens <= tokens
        return [self._check_place(item.memory.source or {}, item.memory.text) for item in answer.items]

    def _check_place(self, place: Any, text: str) -> Span:
        span = Span(place["path"], place["start"], place["end"])
        self.figures.positions += 1
        self.figures.wrong_places += self._texts[span.path][span.start : span.end] != text
        return span

    def _add_row(self, question: Question, right: set[Span], found: dict[str, list[Span]]) -> None:
        row: dict[str, Any] = {"half": question.half, "question": question.text, "answerable": bool(right)}
        row |= {f"right: {mode}": bool(right & set(spans)) for mode, spans in found.items()}
        results = found["search"]
        row |= {"first": bool(results) and results[0] in right, "count": len(results), "nothing": not results}
        row["found"] = {mode: [[s.path, s.start, s.end] for s in spans] for mode, spans in found.items()}
        self.figures.rows.append(row)

    async def _sample(self, question: Question, right: set[Span]) -> None:
        """Keep the relevance signals of the best ten chunks."""
        query = SearchQuery(
            question.text, Filters(USER), types=frozenset({MemoryType.chunk}), top_k=10, min_relevance=0.0
        )
        answer = await self._app.recall.search.search_memories(self._principal, query)
        scored: list[ScoredCandidate] = [result.ranked.scored for result in answer.results]
        spans = [self._check_place(result.place or {}, result.text) for result in answer.results]
        signals = [s.signals for s in scored if s.signals is not None]
        if len(signals) == len(spans) and signals:
            labels = np.array([span in right for span in spans], np.bool_)
            self.figures.samples.append(Sample(question.half, bool(right), np.array(signals), labels))


async def measure_documents(
    site: throwaway.Site,
    settings: Settings,
    texts: dict[str, str],
    known: dict[bytes, Embedding],
    say: Callable[[str], None],
) -> DocumentFigures:
    """Index the folder below the settings' root and ask all questions. New embeddings are added to `known`."""
    embedder: Embedder = RememberingEmbedder(settings.home / "models", known, settings.embedding_model)
    async with build_application(settings, Doubles(embedder=embedder)) as app:
        found = await app.tenancy.tenants.authenticate(site.key)
        assert found is not None
        principal = replace(found, scopes=found.scopes | {"admin"})
        started = time.perf_counter()
        await index_folder(app, principal, settings.source_roots[0])
        say(f"{len(texts)} files indexed in {time.perf_counter() - started:.0f} s")
        sql = await asyncpg.connect(site.superuser_url)
        await sql.execute("VACUUM (ANALYZE)")
        asking = _Asking(app, principal, texts)
        await asking.ask_all(sql, load_questions())
        await sql.close()
        return asking.figures


def run(folder: Path, vectors: Path | None, say: Callable[[str], None]) -> DocumentFigures:
    """Measure on a throw-away installation. The embeddings are kept in the file `vectors`, if there is one."""
    known = pickle.loads(vectors.read_bytes()) if vectors and vectors.exists() else {}
    with throwaway.open_site(0) as site, tempfile.TemporaryDirectory(prefix="mnema-documents-") as scratch:
        root = Path(scratch).resolve() / "root"
        texts = copy_documents(folder, root)
        changes = {"config_dir": write_config(Path(scratch)), "source_roots": [str(root)]}
        settings = default_model(site.home.server_settings(site.cluster)).model_copy(update=changes)
        figures = asyncio.run(measure_documents(site, settings, texts, known, say))
    if vectors:
        vectors.write_bytes(pickle.dumps(known))
    return figures
