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

import structlog
from filelock import FileLock

from app.providers.embeddings.fitted_graph import FittedGraph
from app.providers.embeddings.local_model import LocalModel, Weights
from app.providers.embeddings.onnx_graph import EncoderGraph, Precision
from app.providers.onnx_telemetry import disable_telemetry

if TYPE_CHECKING:
    import onnxruntime
    from onnx import ModelProto

log = structlog.get_logger(__name__)
BUILDER_VERSION = 7
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
    """Return the builder of a graph. Raise ValueError for int8 if no codes are fitted for the model."""
    if precision == "fp32":
        return EncoderGraph(weights)
    if weights.codes is None:
        raise ValueError("a graph in integers needs the codes of the model's activations")
    return FittedGraph(weights, weights.codes)


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
