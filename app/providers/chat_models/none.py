"""The absence of a chat model: work that needs one is skipped, and an error says so."""

from app.domain.outages import NoChatModel
from app.ports import Answer, AnswerListener, Prompt, Reply, refuse_inside_transaction


class NullChatModel:
    """A ChatModel that is never available."""

    name = ""
    is_available = False
    thinking_tokens = 0

    def describe(self) -> str:
        """Return nothing."""
        return ""

    async def generate_reply(self, prompt: Prompt[Answer], listener: AnswerListener | None = None) -> Reply[Answer]:
        """Raise NoChatModel."""
        refuse_inside_transaction("chat model")
        raise NoChatModel()

    async def check_health(self) -> None:
        """Return: there is nothing to fail."""

    async def close(self) -> None:
        """Return: there is nothing to release."""
