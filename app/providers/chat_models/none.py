"""No chat model: what needs one is left undone and says so."""

from app.domain.outages import NoChatModel
from app.ports import Answer, Prompt, Reply, refuse_inside_transaction


class NoModel:
    """A ChatModel that is not there."""

    name = ""
    answers = False

    async def ask(self, prompt: Prompt[Answer]) -> Reply[Answer]:
        """Raises NoChatModel."""
        refuse_inside_transaction("chat model")
        raise NoChatModel()

    async def check(self) -> None:
        """There is nothing to fail."""

    async def close(self) -> None:
        """There is nothing to release."""
