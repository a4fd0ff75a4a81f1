"""The embedding model of Mnema for the other products: the same files, the same number of tokens, the same runtime.

A text is embedded alone on the calling thread. The graph gives the sentence's vector only, while Mnema also takes the
vectors of the words from it, so that nobody pays for what it does not use.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

MAX_TOKENS: Final = 256
"""The limit of `app.providers.embeddings.local`."""


class SentenceModel:
    """The model of an ONNX graph and a tokenizer's file. Thread-safe."""

    def __init__(self, graph: Path, tokenizer: Path) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])

    def embed_text(self, text: str) -> list[float]:
        """Return the unit vector of a text."""
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        [vectors] = self._session.run(["sentence_embedding"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        numbers: list[float] = vectors[0].tolist()
        return numbers


def wrap_for_langchain(model: SentenceModel) -> Any:
    """Return the model as LangChain's Embeddings, which mem0 and LangGraph's store take."""
    from langchain_core.embeddings import Embeddings

    class SentenceEmbeddings(Embeddings):
        def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
            return [model.embed_text(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return model.embed_text(text)

    return SentenceEmbeddings()
