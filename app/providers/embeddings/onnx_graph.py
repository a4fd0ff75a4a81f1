"""Builds the ONNX graph of all-MiniLM-L6-v2 from its safetensors, once, into a cache directory.

Inputs `input_ids` and `attention_mask`: int64, (batch, seq). Token types are always 0, so they are folded into the
position table. Outputs of one pass: `token_embeddings` (batch, seq, 384), the last hidden state, and
`sentence_embedding` (batch, 384), its mean over the mask at unit length.

`int8` has one scale a column for weights and one scale a token for activations. The usual dynamic quantisation has one
scale for the whole activation tensor, so a text's vector depends on its batch companions (cosine down to 0.973
measured); with a scale a token it does not, and it is nearer to float32 at the same speed.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto

Precision: TypeAlias = Literal["fp32", "int8"]
BUILDER_VERSION = 1
"""Raise it whenever the graph written here changes: it is part of the cached file's name."""
NAME = "all-MiniLM-L6-v2"
OPSET = 20
IR_VERSION = 10
MASKED = -10_000.0
"""Added to the score of a masked position; exp() of it is 0 in float32."""
GELU_FLOOR = -0.17
"""No GELU is below it, so its activations use all 256 codes instead of half of them."""
PAIR_LIMIT = 127
"""Bound on |w0| + |w1| of two neighbouring int8 weights of a column, before rounding (which may add 1).

x86 processors without VNNI add two uint8 x int8 products in 16 saturating bits: 255 * 128 still fits, so
saturation never sets one host's vectors apart from another's.
"""


class EncoderGraph:
    """Collects the nodes and weights of one BERT encoder."""

    def __init__(
        self, weights: Mapping[str, NDArray[np.float32]], config: Mapping[str, Any], precision: Precision
    ) -> None:
        from onnx import NodeProto, TensorProto

        self.types = TensorProto
        self.precision = precision
        self.weights = weights
        self.config = config
        self.heads: int = config["num_attention_heads"]
        self.width: int = config["hidden_size"]
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, TensorProto] = {}

    def op(self, kind: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """Append one node of one output; returns the output's name."""
        from onnx import helper

        output = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"{output}_node", **attributes))
        return output

    def const(self, name: str, value: NDArray[Any]) -> str:
        """Store an array as an initializer, once; returns `name`."""
        from onnx import numpy_helper

        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.asarray(value, order="C"), name)
        return name

    def ints(self, *values: int) -> str:
        """An int64 vector constant."""
        return self.const("ints_" + "_".join(map(str, values)).replace("-", "m"), np.array(values, np.int64))

    def scalar(self, value: float) -> str:
        """A float32 scalar constant."""
        return self.const(f"scalar_{value!r}", np.array(value, np.float32))

    def linear(self, x: str, *names: str, floor: float | None = None) -> str:
        """One or several dense layers of the same input, side by side in the last axis; `floor`: a lower bound of x."""
        weight = np.concatenate([self.weights[f"{name}.weight"].T for name in names], axis=1)
        bias = np.concatenate([self.weights[f"{name}.bias"] for name in names])
        if self.precision == "int8":
            return self.linear_int8(x, names[0], weight, bias, floor)
        product = self.op("MatMul", [x, self.const(f"{names[0]}.weight", weight)])
        return self.op("Add", [product, self.const(f"{names[0]}.bias", bias)])

    def linear_int8(
        self, x: str, name: str, weight: NDArray[np.float32], bias: NDArray[np.float32], floor: float | None
    ) -> str:
        """`linear` in integers: x = floor + step * code with a step of its own for each token."""
        codes, scale = quantise_columns(weight)
        if floor is None:
            peak, levels, zero = self.row_max(self.op("Abs", [x])), 127.0, 128
        else:
            x = self.op("Sub", [x, self.scalar(floor)])
            peak, levels, zero = self.row_max(x), 255.0, 0
            bias = bias + np.float32(floor) * (codes * scale).sum(axis=0)
        step = self.op("Div", [peak, self.scalar(levels)])
        rounded = self.op("Round", [self.op("Div", [x, step])])
        shifted = self.op("Add", [rounded, self.scalar(float(zero))]) if zero else rounded
        quantised = self.op("Cast", [shifted], to=self.types.UINT8)
        zero_point = self.const(f"zero_{zero}", np.array(zero, np.uint8))
        product = self.op("MatMulInteger", [quantised, self.const(f"{name}.codes", codes), zero_point])
        scaled = self.op("Mul", [self.op("Cast", [product], to=self.types.FLOAT), self.const(f"{name}.scale", scale)])
        return self.op("Add", [self.op("Mul", [scaled, step]), self.const(f"{name}.bias", bias)])

    def row_max(self, x: str) -> str:
        """Maximum over the last axis, kept."""
        return self.op("ReduceMax", [x, self.ints(-1)], keepdims=1)

    def layer_norm(self, x: str, name: str, output: str = "") -> str:
        """LayerNorm over the last axis."""
        scale = self.const(f"{name}.weight", self.weights[f"{name}.weight"])
        bias = self.const(f"{name}.bias", self.weights[f"{name}.bias"])
        epsilon = self.config["layer_norm_eps"]
        return self.op("LayerNormalization", [x, scale, bias], output, axis=-1, epsilon=epsilon)

    def embeddings(self) -> str:
        """Sum of word, position and (constant) token-type embeddings, normalised: (batch, seq, width)."""
        table = "embeddings.{}_embeddings.weight"
        positions = self.weights[table.format("position")] + self.weights[table.format("token_type")][0]
        words = self.const("words", self.weights[table.format("word")])
        seq = self.op("Shape", ["input_ids"], start=1, end=2)
        places = self.op("Slice", [self.const("positions", positions), self.ints(0), seq, self.ints(0)])
        total = self.op("Add", [self.op("Gather", [words, "input_ids"]), places])
        return self.layer_norm(total, "embeddings.LayerNorm")

    def attention(self, x: str, name: str, bias: str) -> str:
        """Multi-head self-attention of (batch, seq, width); `bias` is (batch, 1, 1, seq)."""
        size = self.width // self.heads
        joined = self.linear(x, *(f"{name}.self.{part}" for part in ("query", "key", "value")))
        split = self.op("Reshape", [joined, self.ints(0, 0, 3, self.heads, size)])
        # (3, batch, head, seq, size): one transpose for the three of them
        stacked = self.op("Transpose", [split], perm=[2, 0, 3, 1, 4])
        query, key, value = (
            self.op("Gather", [stacked, self.const(f"index_{i}", np.array(i, np.int64))], axis=0) for i in range(3)
        )
        scores = self.op("MatMul", [query, self.op("Transpose", [key], perm=[0, 1, 3, 2])])
        scaled = self.op("Mul", [scores, self.scalar(size**-0.5)])
        chances = self.op("Softmax", [self.op("Add", [scaled, bias])], axis=-1)
        mixed = self.op("Transpose", [self.op("MatMul", [chances, value])], perm=[0, 2, 1, 3])
        return self.linear(self.op("Reshape", [mixed, self.ints(0, 0, self.width)]), f"{name}.output.dense")

    def layer(self, x: str, name: str, bias: str, output: str = "") -> str:
        """One transformer block, post-norm as in BERT."""
        attended = self.op("Add", [x, self.attention(x, f"{name}.attention", bias)])
        x = self.layer_norm(attended, f"{name}.attention.output.LayerNorm")
        inner = self.op("Gelu", [self.linear(x, f"{name}.intermediate.dense")])
        total = self.op("Add", [x, self.linear(inner, f"{name}.output.dense", floor=GELU_FLOOR)])
        return self.layer_norm(total, f"{name}.output.LayerNorm", output)

    def pool(self, tokens: str, mask: str) -> None:
        """Mean over the mask at unit length; one row of the mask always has a 1 ([CLS])."""
        weights = self.op("Unsqueeze", [mask, self.ints(2)])
        total = self.op("ReduceSum", [self.op("Mul", [tokens, weights]), self.ints(1)], keepdims=0)
        # The count of tokens cancels out in the unit length, so the sum stands for the mean.
        length = self.op("ReduceL2", [total, self.ints(1)], keepdims=1)
        self.op("Div", [total, length], "sentence_embedding")

    def build(self) -> "ModelProto":
        """The whole encoder as a checked model."""
        from onnx import checker, helper

        mask = self.op("Cast", ["attention_mask"], to=self.types.FLOAT)
        absent = self.op("Sub", [self.scalar(1.0), self.op("Unsqueeze", [mask, self.ints(1, 2)])])
        bias = self.op("Mul", [absent, self.scalar(MASKED)])
        x = self.embeddings()
        last = self.config["num_hidden_layers"] - 1
        for i in range(last + 1):
            x = self.layer(x, f"encoder.layer.{i}", bias, "token_embeddings" if i == last else "")
        self.pool(x, mask)
        tensor = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            NAME,
            [tensor(name, self.types.INT64, ["batch", "seq"]) for name in ("input_ids", "attention_mask")],
            [
                tensor("token_embeddings", self.types.FLOAT, ["batch", "seq", self.width]),
                tensor("sentence_embedding", self.types.FLOAT, ["batch", self.width]),
            ],
            list(self.initializers.values()),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        checker.check_model(model)
        return model


def quantise_columns(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """int8 codes (rows, columns) and one scale a column: weight = codes * scale. See PAIR_LIMIT."""
    size = np.abs(weight)
    pairs = size[0::2] + size[1::2]
    scale = (pairs.max(axis=0) / PAIR_LIMIT).astype(np.float32)
    return np.rint(weight / scale).astype(np.int8), scale


def build_graph(model_dir: Path, precision: Precision) -> "ModelProto":
    """The graph of the weights in `model_dir`."""
    from safetensors.numpy import load_file

    config = json.loads((model_dir / "config.json").read_text())
    return EncoderGraph(load_file(model_dir / "model.safetensors"), config, precision).build()


def weights_version(model_dir: Path) -> str:
    """A digest of weights and configuration, 12 hexadecimal digits; reads 90 MB, about 0.1 s."""
    with (model_dir / "model.safetensors").open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update((model_dir / "config.json").read_bytes())
    return digest.hexdigest()[:12]


def ensure_graph(cache_dir: Path, model_dir: Path, precision: Precision = "int8") -> Path:
    """Path of the graph's file, built if it is not there yet; parallel processes build it once.

    Raises OSError when `cache_dir` cannot be written.
    """
    version = f"{precision}-v{BUILDER_VERSION}-{weights_version(model_dir)}"
    path = cache_dir / f"{NAME}-{version}.onnx"
    if path.exists():
        return path
    cache_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            _write_whole(path, build_graph(model_dir, precision).SerializeToString())
    return path


def _write_whole(path: Path, content: bytes) -> None:
    """Write so that `path` is never seen half-written; the caller holds its lock, so the partial file has one owner."""
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
