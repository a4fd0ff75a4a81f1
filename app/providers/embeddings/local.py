"""A local model on ONNX Runtime, offline. Its graph is built once and cached."""

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.domain.outages import EmbedderUnavailable
from app.domain.recall.late_interaction import MAX_WORDS, pack_tokens
from app.ports import Embedding
from app.providers.embeddings.base import CachingEmbedder, unit_vectors
from app.providers.embeddings.batches import WaitingBatch, WaitingBatches, plan_batches
from app.providers.embeddings.e5 import NAME as E5_SMALL
from app.providers.embeddings.e5 import E5Small
from app.providers.embeddings.local_model import DIMENSION, LocalModel, TextForm
from app.providers.embeddings.minilm import NAME as MINILM
from app.providers.embeddings.minilm import MiniLM
from app.providers.embeddings.onnx_files import open_session
from app.providers.embeddings.onnx_graph import Precision
from app.shares import acting_tenant

if TYPE_CHECKING:
    from tokenizers import Encoding

_EDGES = re.compile(r"^\W+|\W+$")
LOCAL_MODELS = (MINILM, E5_SMALL)
"""The names of the local models."""
SHORT_CHARACTERS = 1_000
"""Texts up to this length in all are tokenised at once: that takes less time than the way to a thread and back."""


class LoadedModel:
    """A loaded model. Thread-safe. Its methods compute for long, so call them on a worker thread."""

    def __init__(self, model: LocalModel, cache_dir: Path, precision: Precision) -> None:
        self._tokenizer = tokenizer = model.read_tokenizer()
        tokenizer.enable_truncation(model.max_tokens)
        self._is_content = cache(lambda token: model.is_content(tokenizer.id_to_token(token) or ""))
        self.query_form = model.query_form()
        self.text_form = model.text_form()
        self._first = 1 + len(self._tokenizer.encode(self.text_form.prefix.strip(), add_special_tokens=False))
        self._projection = model.token_projection()
        self._session = open_session(cache_dir, model, precision)

    def tokenise_texts(self, written: Sequence[str]) -> "list[Encoding]":
        """Tokenise each text, with the tokens at its ends. One by one, because a batch would start threads."""
        return [self._tokenizer.encode(text) for text in written]

    def embed_batch(self, texts: Sequence[str], encoded: "Sequence[Encoding]") -> list[Embedding]:
        """Embed one batch. The tokens are a text's content words, or all its words if none is a content word."""
        ids = [encoding.ids for encoding in encoded]
        sentences, tokens = self._run_session(["sentence_embedding", "token_embeddings"], ids)
        result = []
        for text, encoding, row, vector in zip(
            texts, encoded, tokens, unit_vectors(sentences, len(texts), DIMENSION), strict=True
        ):
            content = self._content_places(encoding)
            result.append(
                Embedding(vector, pack_tokens(row[content], self._projection), _token_words(text, encoding, content))
            )
        return result

    def token_vectors(self, encoded: "Sequence[Encoding]") -> list[NDArray[np.float32]]:
        """Return the vectors of the content words of each text, before any projection, shape (words, DIMENSION)."""
        [tokens] = self._run_session(["token_embeddings"], [encoding.ids for encoding in encoded])
        return [row[self._content_places(encoding)] for row, encoding in zip(tokens, encoded, strict=True)]

    def _content_places(self, encoding: "Encoding") -> NDArray[np.int64]:
        """Return the places of the words that are compared: content words, or all words if there are none."""
        content = self._first + np.flatnonzero(list(map(self._is_content, encoding.ids[self._first :])))[:MAX_WORDS]
        return content if content.size else np.arange(self._first, len(encoding.ids) - 1)[:MAX_WORDS]

    def _run_session(self, outputs: list[str], encoded: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        ids = np.zeros((len(encoded), max(map(len, encoded))), np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(encoded):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        result: list[NDArray[np.float32]] = self._session.run(outputs, {"input_ids": ids, "attention_mask": mask})
        return result


def _token_words(text: str, encoded: "Encoding", content: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the word that each content token stands in, in lower case."""
    words = []
    for index in content.tolist():
        place = encoded.word_ids[index]
        start, end = (encoded.word_to_chars(place) if place is not None else None) or encoded.offsets[index]
        words.append(_EDGES.sub("", text[start:end]).lower() or text[start:end].strip())
    return tuple(words)


class LocalEmbedder(CachingEmbedder):
    """An Embedder on `threads` worker threads of one core each. The model loads at the first call, or before.

    A call has one batch computed at a time, so that a bulk call leaves the other threads to queries. Short batches of
    calls that wait at the same time are computed together.
    """

    gives_tokens = True

    def __init__(
        self,
        cache_dir: Path,
        threads: int = 1,
        query_cache: int = 1024,
        precision: Precision = "int8",
        name: str = MINILM,
    ) -> None:
        super().__init__(name, DIMENSION, query_cache)
        self._cache_dir = cache_dir
        self._precision = precision
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="embedder")
        self._loading = Lock()
        self._loaded: LoadedModel | None = None
        self._waiting = WaitingBatches()

    def begin_loading(self) -> Future[LoadedModel]:
        """Load the model on a worker thread. If that fails, the next call tries again and raises the error."""
        return self._pool.submit(self._load_model)

    async def close(self) -> None:
        """Stop the worker threads; calls that wait and later calls raise EmbedderUnavailable."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        while batches := self._waiting.take_some():
            for batch in batches:
                batch.deliver(RuntimeError("the embedder is closed"))

    async def _encode_uncached(self, texts: list[str]) -> list[Embedding]:
        model = await self._open_model()
        return await self._encode_written(model, model.text_form, texts)

    async def _encode_new_query(self, text: str) -> Embedding:
        model = await self._open_model()
        [embedding] = await self._encode_written(model, model.query_form, [text])
        return embedding

    async def _open_model(self) -> LoadedModel:
        if self._loaded is not None:
            return self._loaded
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._load_model)
        except Exception as error:
            raise _failed(error) from error

    async def _encode_written(self, model: LoadedModel, form: TextForm, texts: list[str]) -> list[Embedding]:
        try:
            return await self._encode_batches(model, form, texts)
        except Exception as error:
            raise _failed(error) from error

    async def _encode_batches(self, model: LoadedModel, form: TextForm, texts: list[str]) -> list[Embedding]:
        loop = asyncio.get_running_loop()
        if sum(map(len, texts)) <= SHORT_CHARACTERS:
            written = [form.write(text) for text in texts]
            encoded = model.tokenise_texts(written)
        else:
            written, encoded = await loop.run_in_executor(self._pool, _write_and_tokenise, model, form, texts)
        result: dict[int, Embedding] = {}
        for batch in plan_batches([len(encoding.ids) for encoding in encoded]):
            embeddings = await self._embed_batch(
                model, [written[index] for index in batch], [encoded[index] for index in batch]
            )
            result |= zip(batch, embeddings, strict=True)
        return [result[index] for index in range(len(texts))]

    async def _embed_batch(
        self, model: LoadedModel, texts: Sequence[str], encoded: "Sequence[Encoding]"
    ) -> list[Embedding]:
        loop = asyncio.get_running_loop()
        batch = WaitingBatch(texts, encoded, loop.create_future(), acting_tenant.get())
        self._waiting.add(batch)
        try:
            loop.run_in_executor(self._pool, self._compute_some, model, loop)
            return await batch.done
        finally:
            self._waiting.discard(batch)

    def _compute_some(self, model: LoadedModel, loop: asyncio.AbstractEventLoop) -> None:
        """Compute batches that wait, on a worker thread. There may be none: an earlier call of this took them."""
        if not (batches := self._waiting.take_some()):
            return
        outcomes = _compute_together(model, batches)
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            for batch, outcome in zip(batches, outcomes, strict=True):
                loop.call_soon_threadsafe(batch.deliver, outcome)

    def _load_model(self) -> LoadedModel:
        with self._loading:
            if self._loaded is None:
                self._loaded = LoadedModel(
                    _open_local_model(self._model, self._cache_dir), self._cache_dir, self._precision
                )
            return self._loaded


def _open_local_model(name: str, cache_dir: Path) -> LocalModel:
    return E5Small(cache_dir) if name == E5_SMALL else MiniLM()


def _write_and_tokenise(model: LoadedModel, form: TextForm, texts: Sequence[str]) -> "tuple[list[str], list[Encoding]]":
    written = [form.write(text) for text in texts]
    return written, model.tokenise_texts(written)


def _failed(error: Exception) -> EmbedderUnavailable:
    """Return the error that clients get."""
    return EmbedderUnavailable(f"The local embedding model failed: {_describe_cause(error)}.")


def _compute_together(model: LoadedModel, batches: Sequence[WaitingBatch]) -> list[list[Embedding] | Exception]:
    """Return the embeddings of each batch, or its own error: a batch fails no other one."""
    texts = [text for batch in batches for text in batch.texts]
    encoded = [encoding for batch in batches for encoding in batch.encoded]
    try:
        found = iter(model.embed_batch(texts, encoded))
    except Exception as error:
        return [error] if len(batches) == 1 else [_compute_together(model, [batch])[0] for batch in batches]
    return [list(islice(found, len(batch.texts))) for batch in batches]


def _describe_cause(error: Exception) -> str:
    """Return the reason in words fit for a client, without text or path. The full error is the cause of ours."""
    if isinstance(error, ModuleNotFoundError):
        return f"the package {error.name} is not installed"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return type(error).__name__
