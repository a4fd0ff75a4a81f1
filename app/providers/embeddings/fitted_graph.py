"""The ONNX graph of an encoder whose activations have fitted codes. It takes a third less time than `EncoderGraph`.

One scale a token, as `EncoderGraph` has it, takes nine nodes around each product, and a short text spends two thirds of
its time outside the products. With constants, three nodes do the same. What they would add moves into other constants:

- The norms give each channel without its center. The center goes into the bias of the layers that read it, and into the
  bias of the layer whose output is added to it.
- The step of a channel goes into the weights of the layer that reads it.
- The values of the attention come centered and divided by their steps. As the shares of a token add up to 1, the mean
  of such values is quantised at once.
"""

import numpy as np
from numpy.typing import NDArray

from app.providers.embeddings.activation_codes import GELU_ZERO, ZERO, ActivationCodes
from app.providers.embeddings.local_model import Weights
from app.providers.embeddings.onnx_graph import EncoderGraph, quantise_columns

_QUERY, _OUTPUT, _INNER = range(3)
"""The places of the inputs in `ActivationCodes.center` and `step`."""


class FittedGraph(EncoderGraph):
    """A builder of an encoder in integers."""

    opset = 23

    def __init__(self, weights: Weights, codes: ActivationCodes) -> None:
        super().__init__(weights, "int8")
        self.codes = codes

    def encode_tokens(self, bias: str) -> str:
        """Add all layers; return the last hidden state. `bias` is (batch, 1, 1, seq)."""
        seq = self.add_node("Shape", ["input_ids"], start=1, end=2)
        shape = self.add_node("Concat", [self.int_constant(1, 1), seq, self.int_constant(1)], axis=0)
        mask = self.add_node("Expand", [bias, shape])  # (batch, 1, seq, seq): Attention wants a row for each token
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
        total = self.add_node("Add", [x, self.coded_dense(mixed, f"{name}.mixed", weight, bias, step[_OUTPUT])])
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
        joined = self.coded_dense(divided, name, weight, bias, step[_QUERY])
        query, key, value = self.split_thirds(joined)
        return self.add_node("Attention", [query, key, value, mask], q_num_heads=self.heads, kv_num_heads=self.heads)

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
        one = self.scalar_constant(1.0)
        quantised = self.add_node("QuantizeLinear", [divided, one, zero_point])
        codes, scale = quantise_columns(weight * step[:, None])
        inputs = [
            quantised,
            self.add_constant(f"{name}.codes", codes),
            one,  # the scale of the input
            self.add_constant(f"{name}.scale", scale),
            zero_point,
            "",  # the weights have no zero point
            self.add_constant(f"{name}.bias", bias.astype(np.float32)),
        ]
        return self.add_node("MatMulIntegerToFloat", inputs, domain=self.runtime_domain)
