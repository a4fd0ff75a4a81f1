"""The graph with fitted codes, against float32."""

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from app.providers.embeddings.e5 import E5Small
from app.providers.embeddings.local_model import Weights
from app.providers.embeddings.onnx_files import build_graph, open_session
from app.providers.embeddings.onnx_graph import Precision
from bench.fit_activations import LAYER, fit_codes, measure_ranges
from tests.conftest import model_cache

CONFIG = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "layer_norm_eps": 1e-12,
}
WORDS = 50
PLAIN = [
    "Maya is allergic to peanuts.",
    "Maya es alérgica a los cacahuetes.",
    "Maya ist allergisch gegen Erdnüsse.",
    "玛雅对花生过敏。",
    "マヤはピーナッツアレルギーがあります。",
    "У Майи аллергия на арахис.",
    "مايا تعاني من حساسية الفول السوداني.",
    "माया को मूंगफली से एलर्जी है।",
    "마야는 땅콩 알레르기가 있어요.",
]
ODD = ["?!", "a", "A" * 24, "tea " * 200, "https://example.com/a/b?c=d&e=%20f#g", "🎉🎉 !!!", "\u200b"]


@pytest.fixture(scope="module")
def tiny() -> Weights:
    """Make a random encoder of two layers, with codes fitted on random texts."""
    chance = np.random.default_rng(1)

    def normal(*shape: int) -> NDArray[np.float32]:
        return chance.normal(0, 0.3, shape).astype(np.float32)

    width, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    sizes = {"word": WORDS, "position": 16, "token_type": 2}
    arrays = {f"embeddings.{name}_embeddings.weight": normal(size, width) for name, size in sizes.items()}
    norms = ["embeddings.LayerNorm"]
    for layer in range(2):
        name = f"encoder.layer.{layer}."
        norms += [f"{name}attention.output.LayerNorm", f"{name}output.LayerNorm"]
        for dense in (*LAYER, "attention.self.key", "attention.self.value"):
            shape = {"intermediate.dense": (inner, width), "output.dense": (width, inner)}.get(dense, (width, width))
            arrays |= {f"{name}{dense}.weight": normal(*shape), f"{name}{dense}.bias": normal(shape[0])}
    arrays |= {f"{norm}.weight": 1 + normal(width) for norm in norms}
    arrays |= {f"{norm}.bias": normal(width) for norm in norms}
    weights = Weights(arrays, CONFIG)
    texts = [chance.integers(0, WORDS, 12).tolist() for _ in range(100)]
    return Weights(arrays, CONFIG, fit_codes(weights, measure_ranges(weights, texts), 0.85))


def test_a_text_has_nearly_its_vectors_in_float32_beside_any_other_text(tiny: Weights) -> None:
    texts = np.random.default_rng(2).integers(0, WORDS, (20, 10))
    mask = np.ones_like(texts)
    exact, exact_tokens = _run(_open(tiny, "fp32"), texts, mask)
    fitted = _open(tiny, "int8")
    found, tokens = _run(fitted, texts, mask)
    assert _cosines(exact, found).min() > 0.998
    assert _cosines(exact_tokens, tokens).min() > 0.99
    mask[:5, 6:] = 0
    alone, _ = _run(fitted, texts[:5, :6], mask[:5, :6])
    padded, _ = _run(fitted, texts, mask)
    assert padded[:5] == pytest.approx(alone, abs=1e-5)
    assert padded[5:] == pytest.approx(found[5:], abs=1e-5)


@pytest.mark.long
def test_the_multilingual_model_is_near_float32_on_any_text() -> None:
    model = E5Small(model_cache())
    tokenizer = model.read_tokenizer()
    form = model.text_form()
    exact = _open(model.read_weights(), "fp32")
    fitted = open_session(model_cache(), model, "int8")
    for texts, least in ((PLAIN, 0.999), (ODD, 0.995)):
        for text in texts:
            ids = np.array([tokenizer.encode(form.write(text)).ids])
            mask = np.ones_like(ids)
            assert _cosines(_run(exact, ids, mask)[0], _run(fitted, ids, mask)[0]).min() > least


def _open(weights: Weights, precision: Precision) -> onnxruntime.InferenceSession:
    model = build_graph(weights, precision).build_model("model")
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def _run(
    session: onnxruntime.InferenceSession, ids: NDArray[np.int64], mask: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    sentences, tokens = session.run(
        ["sentence_embedding", "token_embeddings"], {"input_ids": ids, "attention_mask": mask}
    )
    return sentences, tokens


def _cosines(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    cosines: NDArray[np.float32] = (one * other).sum(axis=-1) / lengths
    return cosines
