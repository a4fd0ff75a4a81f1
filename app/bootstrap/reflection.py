"""What a chat model is asked through, and by whom."""

from app.config.loader import Policies
from app.ports import ChatModel, Clock, SameFactJudge
from app.storage.journal import Journal
from app.storage.llm import LlmStorage
from app.storage.uow import UnitOfWork
from app.usecases.memories.same_fact_judge import ModelJudge
from app.usecases.ops.ask_model import AskModel


def asking(uow: UnitOfWork, journal: Journal, chat: ChatModel, policies: Policies, clock: Clock) -> AskModel:
    """The way to the model."""
    return AskModel(chat, LlmStorage(uow), journal, policies.llm, clock)


def judging(ask: AskModel, policies: Policies) -> SameFactJudge | None:
    """The judge of consolidation; None without a model."""
    numeric = tuple(c.name for c in policies.categories.categories.values() if c.numeric_update)
    return ModelJudge(ask, numeric) if ask.able else None
