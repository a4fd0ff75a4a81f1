"""No chat model: what needs one is left undone and says so."""

from app.domain.outages import NoChatModel
from app.ports import Answer, Prompt, Reply, refuse_inside_transaction


class NullChatModel:
    """A ChatModel that is not there."""

    name = ""
    is_available = False

    async def generate_reply(self, prompt: Prompt[Answer]) -> Reply[Answer]:
        """Raises NoChatModel."""
        refuse_inside_transaction("chat model")
        raise NoChatModel()

    async def check_health(self) -> None:
        """There is nothing to fail."""

    async def close(self) -> None:
        """There is nothing to release."""
