"""The ONNX graph of a local model: a BERT encoder, built from its weights.

Inputs `input_ids` and `attention_mask`: int64, (batch, seq). Token types are always 0, so they are folded into the
position table. Outputs of one pass: `token_embeddings` (batch, seq, 384), the last hidden state, and
`sentence_embedding` (batch, 384), its mean over the mask at unit length.

Queries, keys and values come from one dense layer, and one node does the attention.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.providers.embeddings.local_model import Weights

if TYPE_CHECKING:
    from onnx import ModelProto

Precision: TypeAlias = Literal["fp32", "int8"]
OPSET = 23
IR_VERSION = 10
MASKED = -10_000.0
"""A bias for the score of a masked position; exp() of it is 0 in float32."""


class EncoderGraph:
    """A builder of one BERT encoder in float32: its nodes and weights."""

    operators: ClassVar[Mapping[str, int]] = {"": OPSET}
    """The versions of the operators that it uses, by domain."""

    def __init__(self, weights: Weights) -> None:
        from onnx import NodeProto, TensorProto

        self.types = TensorProto
        self.weights = weights.arrays
        self.config = weights.config
        self.heads: int = self.config["num_attention_heads"]
        self.width: int = self.config["hidden_size"]
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, TensorProto] = {}

    def add_node(self, kind: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """Append one node with one output; return the output's name."""
        from onnx import helper

        output = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"{output}_node", **attributes))
        return output

    def add_constant(self, name: str, value: NDArray[Any]) -> str:
        """Store an array as an initializer, once; return `name`."""
        from onnx import numpy_helper

        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.asarray(value, order="C"), name)
        return name

    def int_constant(self, *values: int) -> str:
        """Return the name of an int64 vector constant."""
        return self.add_constant("ints_" + "_".join(map(str, values)).replace("-", "m"), np.array(values, np.int64))

    def scalar_constant(self, value: float) -> str:
        """Return the name of a float32 scalar constant."""
        return self.add_constant(f"scalar_{value!r}", np.array(value, np.float32))

    def linear_layer(self, x: str, *names: str) -> str:
        """Add dense layers of one input, side by side in the last axis."""
        weight, bias = self.dense_weights(*names)
        product = self.add_node("MatMul", [x, self.add_constant(f"{names[0]}.weight", weight)])
        return self.add_node("Add", [product, self.add_constant(f"{names[0]}.bias", bias)])

    def dense_weights(self, *names: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return new arrays: the weights of dense layers of one input, shape (inputs, outputs), and their bias."""
        weight = np.concatenate([self.weights[f"{name}.weight"].T for name in names], axis=1)
        return weight, np.concatenate([self.weights[f"{name}.bias"] for name in names])

    def split_thirds(self, x: str) -> list[str]:
        """Split (batch, seq, 3 * size) into three of (batch, seq, size)."""
        from onnx import helper

        parts = [f"third_{len(self.nodes)}_{part}" for part in range(3)]
        self.nodes.append(helper.make_node("Split", [x], parts, axis=2, num_outputs=3, name=f"{parts[0]}_node"))
        return parts

    def layer_norm(self, x: str, name: str) -> str:
        """Add a LayerNorm over the last axis."""
        scale = self.add_constant(f"{name}.weight", self.weights[f"{name}.weight"])
        bias = self.add_constant(f"{name}.bias", self.weights[f"{name}.bias"])
        epsilon = self.config["layer_norm_eps"]
        return self.add_node("LayerNormalization", [x, scale, bias], axis=-1, epsilon=epsilon)

    def embedding_sum(self) -> str:
        """Add the sum of word, position and (constant) token-type embeddings: (batch, seq, width)."""
        table = "embeddings.{}_embeddings.weight"
        positions = self.weights[table.format("position")] + self.weights[table.format("token_type")][0]
        seq = self.add_node("Shape", ["input_ids"], start=1, end=2)
        places = self.add_node(
            "Slice", [self.add_constant("positions", positions), self.int_constant(0), seq, self.int_constant(0)]
        )
        return self.add_node("Add", [self.word_vectors(self.weights[table.format("word")]), places])

    def word_vectors(self, table: NDArray[np.float32]) -> str:
        """Add the rows of the words, of shape (batch, seq, width)."""
        return self.add_node("Gather", [self.add_constant("words", table), "input_ids"])

    def token_mask(self, bias: str) -> str:
        """Repeat `bias`, of shape (batch, 1, 1, seq), for each token: the attention wants (batch, 1, seq, seq)."""
        seq = self.add_node("Shape", ["input_ids"], start=1, end=2)
        shape = self.add_node("Concat", [self.int_constant(1, 1), seq, self.int_constant(1)], axis=0)
        return self.add_node("Expand", [bias, shape])

    def mix_tokens(self, joined: str, mask: str) -> str:
        """Add multi-head self-attention; `joined` are query, key and value side by side, (batch, seq, 3 * width)."""
        inputs = [*self.split_thirds(joined), mask]
        return self.add_node("Attention", inputs, q_num_heads=self.heads, kv_num_heads=self.heads)

    def attention_layer(self, x: str, name: str, mask: str) -> str:
        """Add the self-attention with its output layer."""
        joined = self.linear_layer(x, *(f"{name}.self.{part}" for part in ("query", "key", "value")))
        return self.linear_layer(self.mix_tokens(joined, mask), f"{name}.output.dense")

    def transformer_layer(self, x: str, name: str, mask: str) -> str:
        """Add one transformer block, post-norm as in BERT."""
        attended = self.add_node("Add", [x, self.attention_layer(x, f"{name}.attention", mask)])
        x = self.layer_norm(attended, f"{name}.attention.output.LayerNorm")
        inner = self.add_node("Gelu", [self.linear_layer(x, f"{name}.intermediate.dense")])
        total = self.add_node("Add", [x, self.linear_layer(inner, f"{name}.output.dense")])
        return self.layer_norm(total, f"{name}.output.LayerNorm")

    def encode_tokens(self, bias: str) -> str:
        """Add all layers; return the last hidden state, an output of the graph. `bias` is (batch, 1, 1, seq)."""
        mask = self.token_mask(bias)
        x = self.layer_norm(self.embedding_sum(), "embeddings.LayerNorm")
        for i in range(self.config["num_hidden_layers"]):
            x = self.transformer_layer(x, f"encoder.layer.{i}", mask)
        return self.add_node("Identity", [x], "token_embeddings")

    def add_mean_pooling(self, tokens: str, mask: str) -> None:
        """Add the mean over the mask at unit length. Each row of the mask has at least one 1 ([CLS])."""
        weights = self.add_node("Unsqueeze", [mask, self.int_constant(2)])
        total = self.add_node("ReduceSum", [self.add_node("Mul", [tokens, weights]), self.int_constant(1)], keepdims=0)
        # The count of tokens cancels out in the unit length, so the sum stands for the mean.
        length = self.add_node("ReduceL2", [total, self.int_constant(1)], keepdims=1)
        self.add_node("Div", [total, length], "sentence_embedding")

    def build_model(self, name: str) -> "ModelProto":
        """Return the whole encoder as a checked model of this name."""
        from onnx import checker, helper

        mask = self.add_node("Cast", ["attention_mask"], to=self.types.FLOAT)
        absent = self.add_node(
            "Sub", [self.scalar_constant(1.0), self.add_node("Unsqueeze", [mask, self.int_constant(1, 2)])]
        )
        bias = self.add_node("Mul", [absent, self.scalar_constant(MASKED)])
        self.add_mean_pooling(self.encode_tokens(bias), mask)
        tensor = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            name,
            [tensor(name, self.types.INT64, ["batch", "seq"]) for name in ("input_ids", "attention_mask")],
            [
                tensor("token_embeddings", self.types.FLOAT, ["batch", "seq", self.width]),
                tensor("sentence_embedding", self.types.FLOAT, ["batch", self.width]),
            ],
            list(self.initializers.values()),
        )
        operators = [helper.make_opsetid(domain, version) for domain, version in self.operators.items()]
        model = helper.make_model(graph, opset_imports=operators, ir_version=IR_VERSION)
        checker.check_model(model)
        return model
