"""The interface of a model of the local embedder: weights, a tokenizer, and the form of texts that it expects."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from app.domain.recall.late_interaction import TokenProjection, hashed_projection
from app.providers.embeddings.activation_codes import ActivationCodes

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DIMENSION = 384
"""The length of a vector, the same for all local models."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a BERT encoder under their usual names, its configuration, and codes if they are fitted for it."""

    arrays: Mapping[str, NDArray[np.float32]]
    config: Mapping[str, Any]
    codes: ActivationCodes | None = None


@dataclass(frozen=True, slots=True)
class TextForm:
    """The form in which a model expects a text: some characters replaced, and `prefix` before it."""

    prefix: str = ""
    replaced: Mapping[int, str] = field(default_factory=dict)

    def write(self, text: str) -> str:
        """Return the text in this form."""
        return self.prefix + text.translate(self.replaced) if self.replaced else self.prefix + text


class LocalModel(ABC):
    """A model that runs on this machine. Its methods read files, so call them on a worker thread."""

    name: str
    """The name in MNEMA_EMBEDDING_MODEL."""
    max_tokens: int
    """The most tokens of a text, with those at its ends; the rest is cut off."""

    @abstractmethod
    def version(self) -> str:
        """Return a digest of weights and configuration, 12 hexadecimal digits."""

    @abstractmethod
    def read_weights(self) -> Weights:
        """Return the weights."""

    @abstractmethod
    def read_tokenizer(self) -> "Tokenizer":
        """Return the tokenizer, with the tokens at the ends of a text, without truncation and padding."""

    @abstractmethod
    def is_content(self, token: str) -> bool:
        """Tell whether a token is compared word by word."""

    def token_projection(self) -> TokenProjection:
        """Return the projection of the token vectors."""
        return hashed_projection(DIMENSION)

    def query_form(self) -> TextForm:
        """Return the form of a query."""
        return TextForm()

    def text_form(self) -> TextForm:
        """Return the form of a stored text."""
        return TextForm()
