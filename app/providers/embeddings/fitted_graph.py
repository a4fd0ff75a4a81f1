"""The ONNX graph of a local model in integers.

Weights have one scale a column, and activations the constant codes of `activation_codes.py`. So a text's vector depends
on no other text of its batch. Ordinary dynamic quantisation has one scale for the whole activation tensor (cosine down
to 0.973 measured). One scale a token is as near to float32, and takes 12 to 54 % more time.

One node quantises the input of a dense layer, and one multiplies in integers, scales and adds the bias.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from app.providers.embeddings.activation_codes import GELU_ZERO, ZERO, ActivationCodes
from app.providers.embeddings.local_model import Weights
from app.providers.embeddings.onnx_graph import EncoderGraph

RUNTIME = "com.microsoft"
"""The domain of the runtime's own operators."""
LARGE_TABLE = 100_000
"""The rows from which on a table of words has int8 rows, each with a scale: a quarter of the memory."""
PAIR_LIMIT = 127
"""The bound on |w0| + |w1| of two neighbouring int8 weights of a column, before rounding (which may add 1).

x86 processors without VNNI add two uint8 x int8 products in 16 saturating bits: 255 * 128 still fits, so
saturation never sets one host's vectors apart from another's.
"""
_QUERY, _OUTPUT, _INNER = range(3)
"""The places of the inputs in `ActivationCodes.center` and `step`."""


class FittedGraph(EncoderGraph):
    """A builder of an encoder in integers."""

    operators: ClassVar = {**EncoderGraph.operators, RUNTIME: 1}

    def __init__(self, weights: Weights, codes: ActivationCodes) -> None:
        super().__init__(weights)
        self.codes = codes

    def encode_tokens(self, bias: str) -> str:
        """Add all layers; return the last hidden state. `bias` is (batch, 1, 1, seq)."""
        mask = self.token_mask(bias)
        x = self.centered_norm(self.embedding_sum(), "embeddings.LayerNorm", self.codes.center[0, _QUERY])
        for layer in range(len(self.codes.center)):
            x = self.fitted_layer(x, layer, mask)
        return self.add_node("Identity", [x], "token_embeddings")

    def fitted_layer(self, x: str, layer: int, mask: str) -> str:
        """Add one transformer block. Its input has the center of its attention, its output that of the next block."""
        name = f"encoder.layer.{layer}"
        center = self.codes.center[layer]
        step = self.codes.step[layer]
        mixed = self.fitted_attention(x, layer, mask)
        weight, bias = self.dense_weights(f"{name}.attention.output.dense")
        bias = bias + center[_OUTPUT] @ weight + center[_QUERY]
        attended = self.coded_dense(mixed, f"{name}.mixed", weight, bias, step[_OUTPUT])
        total = self.add_node("Add", [x, attended])
        x = self.centered_norm(total, f"{name}.attention.output.LayerNorm", center[_INNER])
        weight, bias = self.dense_weights(f"{name}.intermediate.dense")
        bias = bias + center[_INNER] @ weight
        divided = self.divide_steps(x, f"{name}.inner", step[_INNER])
        inner = self.add_node("Gelu", [self.coded_dense(divided, f"{name}.inner", weight, bias, step[_INNER])])
        weight, bias = self.dense_weights(f"{name}.output.dense")
        inner_step = self.codes.inner_step[layer]
        divided = self.divide_steps(inner, f"{name}.outer", inner_step)
        outer = self.coded_dense(divided, f"{name}.outer", weight, bias + center[_INNER], inner_step, GELU_ZERO)
        last = layer + 1 == len(self.codes.center)
        after = np.zeros(self.width, np.float32) if last else self.codes.center[layer + 1, _QUERY]
        return self.centered_norm(self.add_node("Add", [x, outer]), f"{name}.output.LayerNorm", after)

    def fitted_attention(self, x: str, layer: int, mask: str) -> str:
        """Add multi-head self-attention up to its output layer: values without their center, divided by their step."""
        name = f"encoder.layer.{layer}.attention"
        center = self.codes.center[layer]
        step = self.codes.step[layer]
        weight, bias = self.dense_weights(f"{name}.self.query", f"{name}.self.key", f"{name}.self.value")
        bias = bias + center[_QUERY] @ weight
        values = slice(2 * self.width, None)
        weight[:, values] /= step[_OUTPUT]
        bias[values] = (bias[values] - center[_OUTPUT]) / step[_OUTPUT]
        divided = self.divide_steps(x, name, step[_QUERY])
        return self.mix_tokens(self.coded_dense(divided, name, weight, bias, step[_QUERY]), mask)

    def centered_norm(self, x: str, name: str, center: NDArray[np.float32]) -> str:
        """Add a LayerNorm over the last axis that takes a center away from each channel."""
        scale = self.add_constant(f"{name}.weight", self.weights[f"{name}.weight"])
        bias = self.add_constant(f"{name}.bias", self.weights[f"{name}.bias"] - center)
        epsilon = self.config["layer_norm_eps"]
        return self.add_node("LayerNormalization", [x, scale, bias], axis=-1, epsilon=epsilon)

    def divide_steps(self, x: str, name: str, step: NDArray[np.float32]) -> str:
        """Divide each channel by its step."""
        return self.add_node("Mul", [x, self.add_constant(f"{name}.steps", 1 / step)])

    def coded_dense(
        self,
        divided: str,
        name: str,
        weight: NDArray[np.float32],
        bias: NDArray[np.float32],
        step: NDArray[np.float32],
        zero: int = ZERO,
    ) -> str:
        """Add a dense layer in integers. `divided` is its input in steps; `weight` is of the undivided one."""
        zero_point = self.add_constant(f"zero_{zero}", np.array(zero, np.uint8))
        quantised = self.add_node("QuantizeLinear", [divided, self.scalar_constant(1.0), zero_point])
        codes, scale = quantise_columns(weight * step[:, None])
        shift = self.add_constant(f"{name}.bias", bias.astype(np.float32))
        inputs = [
            quantised,
            self.add_constant(f"{name}.codes", codes),
            self.scalar_constant(1.0),  # the scale of the input
            self.add_constant(f"{name}.scale", scale),
            zero_point,
            "",  # the weights have no zero point
            shift,
        ]
        return self.add_node("MatMulIntegerToFloat", inputs, domain=RUNTIME)

    def word_vectors(self, table: NDArray[np.float32]) -> str:
        """Add the rows of the words, of shape (batch, seq, width)."""
        if len(table) < LARGE_TABLE:
            return super().word_vectors(table)
        scale = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1e-9) / 127
        rows = self.add_constant("words.codes", np.rint(table / scale).astype(np.int8))
        scales = self.add_constant("words.scale", scale.astype(np.float32))
        codes = self.add_node("Cast", [self.add_node("Gather", [rows, "input_ids"])], to=self.types.FLOAT)
        return self.add_node("Mul", [codes, self.add_node("Gather", [scales, "input_ids"])])


def quantise_columns(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return int8 codes (rows, columns) and one scale a column: weight = codes * scale. See PAIR_LIMIT."""
    size = np.abs(weight)
    pairs = size[0::2] + size[1::2]
    scale = (pairs.max(axis=0) / PAIR_LIMIT).astype(np.float32)
    return np.rint(weight / scale).astype(np.int8), scale
