"""Builds the ONNX graph of all-MiniLM-L6-v2 from its safetensors, once, into a cache directory.

Inputs `input_ids` and `attention_mask`: int64, (batch, seq). Token types are always 0, so they are folded into the
position table. Outputs of one pass: `token_embeddings` (batch, seq, 384), the last hidden state, and
`sentence_embedding` (batch, 384), its mean over the mask at unit length.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto

Precision: TypeAlias = Literal["fp32", "int8"]
BUILDER_VERSION = 1
"""Raise it whenever the graph written here changes: it is part of the cached file's name."""
OPSET = 20
IR_VERSION = 10
MASKED = -10_000.0
"""Added to the score of a masked position; exp() of it is 0 in float32."""


class EncoderGraph:
    """Collects the nodes and weights of one BERT encoder."""

    def __init__(self, weights: Mapping[str, NDArray[np.float32]], config: Mapping[str, Any]) -> None:
        from onnx import NodeProto, TensorProto

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

    def linear(self, x: str, *names: str) -> str:
        """One or several dense layers of the same input, side by side in the last axis."""
        weight = np.concatenate([self.weights[f"{name}.weight"].T for name in names], axis=1)
        bias = np.concatenate([self.weights[f"{name}.bias"] for name in names])
        product = self.op("MatMul", [x, self.const(f"{names[0]}.weight", weight)])
        return self.op("Add", [product, self.const(f"{names[0]}.bias", bias)])

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
        total = self.op("Add", [x, self.linear(inner, f"{name}.output.dense")])
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
        from onnx import TensorProto, checker, helper

        mask = self.op("Cast", ["attention_mask"], to=TensorProto.FLOAT)
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
            "all-MiniLM-L6-v2",
            [tensor(name, TensorProto.INT64, ["batch", "seq"]) for name in ("input_ids", "attention_mask")],
            [
                tensor("token_embeddings", TensorProto.FLOAT, ["batch", "seq", self.width]),
                tensor("sentence_embedding", TensorProto.FLOAT, ["batch", self.width]),
            ],
            list(self.initializers.values()),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        checker.check_model(model)
        return model


def build_fp32(model_dir: Path) -> "ModelProto":
    """The float32 graph of the weights in `model_dir`."""
    from safetensors.numpy import load_file

    config = json.loads((model_dir / "config.json").read_text())
    return EncoderGraph(load_file(model_dir / "model.safetensors"), config).build()


def quantise(model: "ModelProto", target: Path, **kw) -> None:
    """Write `model` to `target` with its MatMul weights as int8, one scale a column."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Says "already pre-processed": else the quantiser warns through the root logger and so configures it.
    note = model.metadata_props.add()
    note.key, note.value = "onnx.quant.pre_process", "onnxruntime.quant"
    quantize_dynamic(
        model, target, op_types_to_quantize=["MatMul"], per_channel=True, **(dict(weight_type=QuantType.QInt8) | kw)
    )
