"""Fit the codes of the activations of a local model (`app/providers/embeddings/activation_codes.py`).

    python -m bench.fit_activations [MODEL]

It runs the model in float32 on bench/sentences, and on what no sentence has: words alone, repeated words and signs,
pieces of the vocabulary by chance, long texts. The range of each channel is that of all these texts and a tenth more.
A step is larger where the weights that read the channel are small, because their product loses less there (Xiao et al.
2023, "SmoothQuant").
"""

import argparse
import base64
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from textwrap import wrap
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.embedded.home import Home
from app.providers.embeddings import e5, minilm
from app.providers.embeddings.activation_codes import CODES, GELU_ZERO, ZERO, ActivationCodes
from app.providers.embeddings.local import LOCAL_MODELS
from app.providers.embeddings.local_model import LocalModel, Weights
from app.providers.embeddings.onnx_graph import EncoderGraph
from bench.fit_projection import read_sentences

MARGIN: Final = 1.1
SHARES: Final = {minilm.NAME: 0.9, e5.NAME: 0.85}
"""The share of a channel's range in its step; the rest comes from the weights. 1 would give them no part.

Of shares from 0.5 to 1, these give the vectors that are nearest to float32.
"""
GELU_LEAST: Final = 0.17
LINE: Final = 110
"""The characters of a line of the file."""
MOST_TOKENS: Final = 200
SIGNS: Final = ".,!?-_=*#/\\|~\"'()[]{}<>&%$€@+0123456789aAxXzZ我のги가ا"
LAYER: Final = ("attention.self.query", "attention.output.dense", "intermediate.dense", "output.dense")

Ranges = dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]


class _OpenGraph(EncoderGraph):
    """A float32 graph whose outputs are the inputs of its dense layers."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights)
        self.inputs: dict[str, str] = {}

    def linear_layer(self, x: str, *names: str) -> str:
        """Add the layer and note its input."""
        self.inputs[names[0]] = x
        return super().linear_layer(x, *names)


def build_texts(sentences: Sequence[str], pieces: Sequence[str]) -> Iterator[str]:
    """Yield the texts, the same each time."""
    chance = Random("activations")
    words = sorted({word for sentence in sentences for word in sentence.split()})
    yield from sentences
    yield from chance.sample(words, 600)
    yield from (" ".join([word] * chance.randint(3, 120)) for word in chance.sample(words, 200))
    yield from (sign * chance.randint(1, 150) for sign in SIGNS)
    for _ in range(400):
        yield " ".join(chance.sample(pieces, chance.randint(1, 40)))
    for _ in range(40):
        yield " ".join(chance.sample(sentences, 12))
    yield from ("", "\u200b", "\n", "\t- \n")


def encode_texts(model: LocalModel) -> Iterator[list[int]]:
    """Yield the tokens of each text."""
    tokenizer = model.read_tokenizer()
    tokenizer.enable_truncation(MOST_TOKENS)
    pieces = sorted(piece.replace("▁", "").removeprefix("##") for piece in tokenizer.get_vocab())
    form = model.text_form()
    for text in build_texts(read_sentences(), pieces):
        yield tokenizer.encode(form.write(text)).ids


def measure_ranges(weights: Weights, encoded: Iterable[list[int]]) -> Ranges:
    """Return the least and the greatest value of each channel of each input."""
    import onnxruntime
    from onnx import helper

    builder = _OpenGraph(weights)
    model = builder.build_model("open")
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in builder.inputs.values())
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ranges: Ranges = {}
    for tokens in encoded:
        ids = np.array([tokens])
        values = session.run(list(builder.inputs.values()), {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        for name, [rows] in zip(builder.inputs, values, strict=True):
            low, high = ranges.get(name, (rows[0], rows[0]))
            ranges[name] = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    return ranges


def fit_codes(weights: Weights, ranges: Ranges, share: float) -> ActivationCodes:
    """Return the codes for these ranges."""
    centers, steps, inner_steps = [], [], []
    for layer in range(weights.config["num_hidden_layers"]):
        *names, last = (f"encoder.layer.{layer}.{name}" for name in LAYER)
        lows, highs = (np.array(ends) for ends in zip(*(ranges[name] for name in names), strict=True))
        centers.append((lows + highs) / 2)
        halves = (highs - lows) / 2
        steps.append(
            [_fit_steps(weights, name, half, ZERO - 1, share) for name, half in zip(names, halves, strict=True)]
        )
        inner = _fit_steps(weights, last, np.maximum(ranges[last][1], GELU_LEAST), CODES - GELU_ZERO, share)
        inner_steps.append(np.maximum(inner, GELU_LEAST / GELU_ZERO))
    return ActivationCodes(*(np.array(values, np.float32) for values in (centers, steps, inner_steps)))


def _fit_steps(weights: Weights, name: str, most: NDArray[np.float32], codes: int, share: float) -> NDArray[np.float32]:
    """Return the step of each channel, so that `codes` steps reach the greatest distance from its center."""
    parts = [name.replace("query", part) for part in ("query", "key", "value")] if name.endswith("query") else [name]
    readers = np.concatenate([weights.arrays[f"{part}.weight"] for part in parts])
    steps = (most * MARGIN) ** share / np.abs(readers).max(axis=0) ** (1 - share)
    fitted: NDArray[np.float32] = steps * (most * MARGIN / steps).max() / codes
    return fitted


def write_codes(codes: ActivationCodes, path: Path) -> None:
    """Write the codes into a file: each array as its shape, and as float16 in lines of base64."""
    arrays = {"center": codes.center, "step": codes.step, "inner_step": codes.inner_step}
    stored = {name: {"shape": array.shape, "lines": _write_lines(array)} for name, array in arrays.items()}
    path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def _write_lines(array: NDArray[np.float32]) -> list[str]:
    return wrap(base64.b64encode(array.astype("<f2").tobytes()).decode(), LINE)


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", choices=LOCAL_MODELS, default=e5.NAME)
    name = parser.parse_args().model
    model: LocalModel = e5.E5Small(Home().path / "models") if name == e5.NAME else minilm.MiniLM()
    path = e5.ACTIVATIONS if name == e5.NAME else minilm.ACTIVATIONS
    weights = model.read_weights()
    codes = fit_codes(weights, measure_ranges(weights, encode_texts(model)), SHARES[name])
    write_codes(codes, path)
    sys.stdout.write(f"{path.name}: {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
