"""Cross-encoders on ONNX Runtime in this process, through fastembed."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from app.domain.errors import ConfigError
from app.providers.onnx_telemetry import disable_telemetry
from app.providers.rerankers.base import CrossEncoder
from app.shares import SharedThreads

if TYPE_CHECKING:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

DEFAULT_MODEL = "Xenova/ms-marco-MiniLM-L-6-v2"
MAX_BATCH = 16
"""The number of texts of similar length in a batch: little padding, and an abandoned call ends soon."""


class FastembedReranker(CrossEncoder):
    """A Reranker in this process. `model` is one that fastembed knows, or a folder with a model's published files.

    It loads at the first call on its one thread, and downloads missing files into `cache_dir`. Calls time out while it
    loads, and loading goes on.
    """

    def __init__(self, model: str, cache_dir: Path, threads: int = 1, timeout_s: float = 3.0) -> None:
        """Use `threads` cores for one call. Raise ConfigError without fastembed or for an unknown model."""
        super().__init__(timeout_s)
        if importlib.util.find_spec("fastembed") is None:
            raise ConfigError(
                "MNEMA_RERANKER is fastembed, which is not installed: pip install -r requirements-fastembed.lock"
            )
        self._model, self._folder = _find_model(model or DEFAULT_MODEL)
        self._cache_dir = cache_dir
        self._threads = threads
        self._pool = SharedThreads(1, "reranker")
        self._loaded: TextCrossEncoder | None = None

    async def close(self) -> None:
        """Stop the thread; later calls raise RerankerUnavailable."""
        self._pool.stop()

    async def _compute_logits(self, query: str, texts: list[str]) -> list[float]:
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        scores: dict[int, float] = {}
        for start in range(0, len(order), MAX_BATCH):
            batch = order[start : start + MAX_BATCH]
            read = await self._pool.run(self._score_batch, query, [texts[place] for place in batch])
            scores |= zip(batch, read, strict=True)
        return [scores[place] for place in range(len(texts))]

    def _score_batch(self, query: str, texts: list[str]) -> list[float]:
        if self._loaded is None:
            self._loaded = self._load_model()
        return list(self._loaded.rerank(query, texts, batch_size=len(texts)))

    def _load_model(self) -> "TextCrossEncoder":
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        return TextCrossEncoder(
            self._model,
            cache_dir=str(self._cache_dir),
            threads=self._threads,
            cuda=False,
            specific_model_path=str(self._folder) if self._folder else None,
        )

    def _describe_error(self, error: Exception) -> str:
        return f"The reranker's model failed ({type(error).__name__})."


def _find_model(model: str) -> tuple[str, Path | None]:
    """Return a model's name and, if its files are local, its folder. Raise ConfigError for an unknown model."""
    disable_telemetry()
    from fastembed.rerank.cross_encoder import TextCrossEncoder
    from loguru import logger

    logger.disable("fastembed")  # our errors report failures; its own lines would not be JSON
    supported = {str(entry["model"]).lower(): entry for entry in TextCrossEncoder.list_supported_models()}
    if model.lower() in supported:
        return model, None
    file = str(supported[DEFAULT_MODEL.lower()]["model_file"])
    if (Path(model) / file).is_file():
        return DEFAULT_MODEL, Path(model)
    names = ", ".join(str(entry["model"]) for entry in supported.values())
    raise ConfigError(f"MNEMA_RERANKER_MODEL: must be a folder that holds {file} or one of {names}")
