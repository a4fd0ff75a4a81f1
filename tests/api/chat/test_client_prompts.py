"""Chats that memory only passes on: a client's own prompts; and answers that are stored without a model's thoughts."""

import pytest

from tests.api.chat.conftest import Talk, said

TITLE = (
    "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Guidelines:\n"
    "- Keep it short.\n### Chat History:\n<chat_history>\nUSER: x\nMy favorite color is red.\n</chat_history>"
)


@pytest.mark.long
@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_of_the_client_is_forwarded_and_leaves_nothing(talk: Talk, *, stream: bool) -> None:
    await talk.say("My favorite color is teal.")
    before = await talk.turns()
    answer = await talk.say(TITLE, stream=stream)
    assert answer.status_code == 200
    assert talk.last.json["messages"][0]["content"] == TITLE
    assert await talk.turns() == before
    assert said(await talk.say("What is my favorite color?")) == "Your favorite color is teal."


async def test_thoughts_of_the_model_reach_the_client_and_are_not_remembered(talk: Talk) -> None:
    answer = await talk.say("<think>They say hello.</think> Hello there.")
    assert said(answer) == "You said: <think>They say hello.</think> Hello there."
    assert (await talk.turns())[-1] == ("assistant", "You said:  Hello there.".replace("  ", " "))
