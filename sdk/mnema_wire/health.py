"""Answers of /health and /ready."""

from pydantic import Field

from mnema_wire.bases import Answered


class Health(Answered):
    """The answer of a process that is alive, with the settings that it was started with."""

    status: str = "ok"
    version: str
    embedder: str = Field(description="the embedding model")
    reranker: str = Field(description="late_interaction, none, or the model's name or kind")
    chat_model: str | None = Field(description="the model of background work; null: none is configured")
    summaries: bool = Field(description="true: the chat model, if there is one, summarises conversations")


class Readiness(Answered):
    """The result of each check: `ok`, a text that begins with `none:` (not configured), or what is wrong."""

    status: str
    checks: dict[str, str]
