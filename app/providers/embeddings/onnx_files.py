"""The files of a local model: its graph and its weights, written once into a cache directory.

A file beside the graph holds the weights. It holds those of the layers a second time, in the layout that the runtime
multiplies with. The runtime maps the file into memory, so that the processes of a machine share its pages, and of the
word vectors (47 or 96 MB) only those that occur are read. A process on a processor with another layout makes a copy of
its own: the runtime compares digests.
"""

import errno
import os
import shutil
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import structlog
from filelock import FileLock
from numpy.typing import NDArray

from app.providers.embeddings.activation_codes import GELU_ZERO, ZERO, ActivationCodes
from app.providers.embeddings.local_model import LocalModel, Weights
from app.providers.embeddings.onnx_graph import EncoderGraph, Precision, quantise_columns
from app.providers.onnx_telemetry import disable_telemetry

_QUERY, _OUTPUT, _INNER = range(3)
"""The places of the inputs in `ActivationCodes.center` and `step`."""


class FittedGraph(EncoderGraph):
    """A builder of an encoder in integers."""

    def __init__(self, weights: Weights, codes: ActivationCodes) -> None:
        super().__init__(weights, "int8")
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
        return self.multiply_codes(quantised, name, codes, scale, zero_point, shift)


if TYPE_CHECKING:
    import onnxruntime
    from onnx import ModelProto

log = structlog.get_logger(__name__)
BUILDER_VERSION = 6
"""The version of both files, part of their names. Raise it whenever `build_graph` makes another graph."""
MIN_MAPPED = 4096
"""Arrays of fewer bytes stay in the graph's file."""


def ensure_graph(cache_dir: Path, model: LocalModel, precision: Precision = "int8") -> Path:
    """Return the path of the graph. If it does not exist, write it and its weights; parallel processes write once.

    Raise OSError if `cache_dir` cannot be written.
    """
    version = f"{precision}-v{BUILDER_VERSION}-{model.version()}-ort{metadata.version('onnxruntime')}"
    path = cache_dir / f"{model.name}-{version}.onnx"
    if path.exists():
        return path
    cache_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            _write_files(build_graph(model.read_weights(), precision).build_model(model.name), path)
    return path


def build_graph(weights: Weights, precision: Precision) -> EncoderGraph:
    """Return the builder of a graph: in integers by fitted codes, if the model has them."""
    if precision == "int8" and weights.codes is not None:
        return FittedGraph(weights, weights.codes)
    return EncoderGraph(weights, precision)


def open_session(cache_dir: Path, model: LocalModel, precision: Precision) -> "onnxruntime.InferenceSession":
    """Return a session that computes on the calling thread alone. Files that cannot be loaded are written again.

    Raise OSError if `cache_dir` cannot be written.
    """
    path = ensure_graph(cache_dir, model, precision)
    try:
        return _load_graph(path)
    except Exception as error:  # the runtime's errors have no base class of their own
        log.warning("model_files_damaged", path=str(path), error=type(error).__name__)
    path.unlink(missing_ok=True)
    return _load_graph(ensure_graph(cache_dir, model, precision))


def _load_graph(path: Path) -> "onnxruntime.InferenceSession":
    options = _session_options()
    import onnxruntime

    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _session_options() -> "onnxruntime.SessionOptions":
    disable_telemetry()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return options


def _write_files(model: "ModelProto", path: Path) -> None:
    """Write a graph, and beside it its weights. Neither is ever seen half-written. The caller holds the lock."""
    folder = path.with_name(f"{path.name}.partial")
    weights = path.with_suffix(".weights")
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir()
    try:
        _save_graph(model, folder / path.name, weights.name)
        for target in (weights, path):  # the graph last, because it says that both are there
            with (folder / target.name).open("r+b") as file:
                os.fsync(file.fileno())
            os.replace(folder / target.name, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _save_graph(model: "ModelProto", path: Path, weights: str) -> None:
    """Have the runtime write a graph, and its weights into the file of that name in the same folder."""
    options = _session_options()
    import onnxruntime

    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    for name, value in (
        ("optimized_model_external_initializers_file_name", weights),
        ("optimized_model_external_initializers_min_size_in_bytes", str(MIN_MAPPED)),
        ("save_external_prepacked_constant_initializers", "1"),
    ):
        options.add_session_config_entry(f"session.{name}", value)
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # as above; a full disk is the likely one
        raise OSError(errno.EIO, "The model's graph cannot be written", str(path)) from error
