"""The graph of the local model: the cost of int8, and the way its file is built."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from app.providers.embeddings import onnx_files
from app.providers.embeddings.activation_codes import ActivationCodes
from app.providers.embeddings.batches import plan_batches
from app.providers.embeddings.fitted_graph import FittedGraph, quantise_columns
from app.providers.embeddings.local import LoadedModel
from app.providers.embeddings.local_model import Weights
from app.providers.embeddings.minilm import MiniLM
from tests.conftest import model_cache

TEXTS = [
    "Caroline moved to Lisbon in May",
    "Tea",
    "The deployment failed because the certificate of the load balancer had expired",
    "Zoë 🦊 läuft 東京で — ¿por qué?",
    "I prefer short answers, in French, and never before nine in the morning. " * 12,
]


@pytest.mark.long
def test_int8_stays_near_float32() -> None:
    exact = LoadedModel(MiniLM(), model_cache(), "fp32")
    quick = LoadedModel(MiniLM(), model_cache(), "int8")
    encoded = exact.tokenise_texts(TEXTS)
    pairs = zip(exact.embed_batch(TEXTS, encoded), quick.embed_batch(TEXTS, encoded), strict=True)
    cosines = np.array([float(one.vector @ other.vector) for one, other in pairs])
    assert cosines.min() > 0.985
    assert cosines.mean() > 0.993


def test_no_pair_of_weights_can_overflow_16_bits() -> None:
    weight = np.random.default_rng(1).standard_normal((384, 96)).astype(np.float32)
    codes, scale = quantise_columns(weight)
    pairs = np.abs(codes.astype(np.int32))
    assert (pairs[0::2] + pairs[1::2]).max() * 255 <= 32767
    assert np.abs(codes * scale - weight).max() <= scale.max() * 0.51


@pytest.mark.long
def test_processes_that_start_together_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    class Counting(FittedGraph):
        def __init__(self, weights: Weights, codes: ActivationCodes) -> None:
            built.append("int8")
            super().__init__(weights, codes)

    monkeypatch.setattr(onnx_files, "FittedGraph", Counting)
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: onnx_files.ensure_graph(tmp_path / "new", MiniLM()), range(4)))
    assert built == ["int8"]
    [path] = paths
    assert {file.suffix for file in path.parent.iterdir()} <= {".onnx", ".weights", ".lock"}


@pytest.mark.long
def test_a_write_cut_short_is_not_taken_for_a_graph(tmp_path: Path) -> None:
    path = onnx_files.ensure_graph(tmp_path, MiniLM())
    weights = path.with_suffix(".weights")
    whole, all_weights = path.read_bytes(), weights.read_bytes()
    partial = path.with_name(f"{path.name}.partial")
    partial.mkdir()
    (partial / path.name).write_bytes(whole[:1000])
    path.unlink()
    weights.write_bytes(all_weights[:1000])
    assert onnx_files.ensure_graph(tmp_path, MiniLM()).read_bytes() == whole
    assert weights.read_bytes() == all_weights
    assert not partial.exists()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells what is mapped")
def test_processes_share_the_weights() -> None:
    model = LoadedModel(MiniLM(), model_cache(), "int8")
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(".weights")]
    sizes = [int(end, 16) - int(begin, 16) for begin, end in (line.split()[0].split("-") for line in mapped)]
    assert sum(sizes) >= 30_522 * 384 * 4 + 6 * 12 * 384 * 384
    assert model.tokenise_texts(["still open"])


@pytest.mark.long
def test_the_mapped_layout_is_what_is_multiplied_with(tmp_path: Path) -> None:
    path = onnx_files.ensure_graph(tmp_path, MiniLM())
    right = embed(tmp_path)
    empty_layouts(path, stored_layouts(onnx.load(path, load_external_data=False)))
    assert (embed(tmp_path) != right).any()


@pytest.mark.long
def test_a_layout_of_another_processor_is_left_aside(tmp_path: Path) -> None:
    path = onnx_files.ensure_graph(tmp_path, MiniLM())
    model, right = onnx.load(path, load_external_data=False), embed(tmp_path)
    empty_layouts(path, stored_layouts(model))
    for entry in stored_layouts(model):
        digest, place = entry.value.split("|")
        entry.value = f"{digest}0|{place}"
    path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(embed(tmp_path), right)


@pytest.mark.long
@pytest.mark.parametrize("damage", ["no weights", "short weights", "an empty graph"])
def test_damaged_files_are_written_again(damage: str, tmp_path: Path) -> None:
    path = onnx_files.ensure_graph(tmp_path, MiniLM())
    weights, right = path.with_suffix(".weights"), embed(tmp_path)
    if damage == "no weights":
        weights.unlink()
    elif damage == "short weights":
        weights.write_bytes(weights.read_bytes()[:1_000_000])
    else:
        path.write_bytes(b"")
    np.testing.assert_array_equal(embed(tmp_path), right)
    assert {file.suffix for file in tmp_path.iterdir()} <= {".onnx", ".weights", ".lock"}


@pytest.mark.long
def test_a_folder_that_takes_no_file_is_an_os_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_files, "MIN_MAPPED", -1)  # the runtime refuses it, as it does a full disk
    with pytest.raises(OSError, match="cannot be written"):
        onnx_files.ensure_graph(tmp_path, MiniLM())
    assert {file.suffix for file in tmp_path.iterdir()} <= {".lock"}


def stored_layouts(model: onnx.ModelProto) -> list[onnx.StringStringEntryProto]:
    """Return the places of all weights that are stored as the runtime multiplies with them: one a dense layer."""
    entries = [entry for tensor in model.graph.initializer for entry in tensor.external_data]
    found = [entry for entry in entries if entry.key.startswith("prepacked_")]
    assert len(found) == 6 * 4
    return found


def empty_layouts(path: Path, entries: list[onnx.StringStringEntryProto]) -> None:
    """Overwrite stored layouts with zeros."""
    with path.with_suffix(".weights").open("r+b") as file:
        for entry in entries:
            offset, length, _alignment = map(int, entry.value.split("|")[1].split(";"))
            file.seek(offset)
            file.write(bytes(length))


def embed(cache_dir: Path) -> NDArray[np.float32]:
    model = LoadedModel(MiniLM(), cache_dir, "int8")
    return np.stack([each.vector for each in model.embed_batch(TEXTS, model.tokenise_texts(TEXTS))])


def test_batches_are_bounded_and_cover_every_text() -> None:
    lengths = [256] * 5 + [3] * 100 + [40] * 30 + [2]
    batches = list(plan_batches(lengths))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert max(map(len, batches)) == 32
    assert all(len(batch) * max(lengths[i] for i in batch) <= 512 for batch in batches)
    assert list(plan_batches([])) == []
