"""LangChain against a real server: a thread as chat history, and the memory as a retriever."""

from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from mnema_client import AsyncMnema, Mnema, NotAllowed, Unauthenticated
from mnema_client.adapters.langchain import MnemaChatHistory, MnemaRetriever
from openai import AsyncOpenAI

from tests.factories import Caller
from tests.fake_chat import FakeChat, fake_chat
from tests.sdk.conftest import apart
from tests.sdk.example_runs import run_example

# LangChain advises newer agents to keep short-term memory in LangGraph; the classes stay until 2.0
pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")
ROLES = {"human": "user", "ai": "assistant", "system": "system"}


def chain(model: FakeChat, memory: Mnema, user: str) -> RunnableWithMessageHistory:
    """Return a chain that sends its prompt to the scripted model, with the thread as history."""

    async def ask(prompt: Any) -> AIMessage:
        messages: Any = [{"role": ROLES[m.type], "content": m.content} for m in prompt.to_messages()]
        async with AsyncOpenAI(base_url=model.base_url, api_key="none") as client:
            answer = await client.chat.completions.create(model="scripted", messages=messages)
        return AIMessage(answer.choices[0].message.content or "")

    prompt = ChatPromptTemplate([MessagesPlaceholder("history"), ("human", "{question}")])
    return RunnableWithMessageHistory(
        prompt | RunnableLambda(ask),
        lambda session_id: MnemaChatHistory(memory, session_id, user_id=user),
        input_messages_key="question",
        history_messages_key="history",
    )


async def test_a_chat_is_remembered_by_the_next_run(waiting: Mnema, waiting_elsewhere: Mnema) -> None:
    where: Any = {"configurable": {"session_id": "chat-1"}}
    async with fake_chat("Blue is noted.", "It is blue.", "I do not know.", "I do not know.") as model:
        await chain(model, waiting, "maya").ainvoke({"question": "My door is blue."}, where)
        answer = await chain(model, waiting, "maya").ainvoke({"question": "What colour is my door?"}, where)
        assert answer.content == "It is blue."
        said = [(message["role"], message["content"]) for message in model.requests[1]["messages"]]
        for other, user in ((waiting, "ben"), (waiting_elsewhere, "maya")):
            await chain(model, other, user).ainvoke({"question": "What colour is my door?"}, where)
        assert all(len(request["messages"]) == 1 for request in model.requests[2:])
    assert said == [("user", "My door is blue."), ("assistant", "Blue is noted."), ("user", "What colour is my door?")]


@pytest.mark.long
async def test_messages_come_back_as_they_were(waiting: Mnema, memory: AsyncMnema) -> None:
    messages: list[BaseMessage] = [
        SystemMessage("Be brief."),
        HumanMessage("  two\n\n\n\nlines “x”"),
        AIMessage("", tool_calls=[{"name": "read", "args": {"file": "a"}, "id": "c1"}]),
        ToolMessage("\n".join(f'  row {number}: "ü"' for number in range(2_000)), tool_call_id="c1"),
        HumanMessage(
            [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]
        ),
        AIMessage("Done.", response_metadata={"model": "scripted"}),
    ]
    history = MnemaChatHistory(waiting, "chat-1", user_id="maya")
    await history.aadd_messages(messages)
    await memory.add_turn("And now?", user_id="maya", thread_id="chat-1", role="user")
    assert await history.aget_messages() == [*messages, HumanMessage("And now?")]
    await MnemaChatHistory(waiting, "chat-1", user_id="ben").aclear()
    await history.aclear()
    assert await history.aget_messages() == []


async def test_a_retriever_gives_what_the_agent_may_see(
    waiting: Mnema, memory: AsyncMnema, elsewhere: AsyncMnema
) -> None:
    for other, user in ((memory, "ben"), (elsewhere, "maya")):
        await other.remember("The launch is on 1 April.", user_id=user, category="tasks")
    stored = await memory.remember(
        "The launch is on 12 March.", user_id="maya", category="tasks", metadata={"ticket": 7}
    )
    await memory.remember("Maya fears the launch.", user_id="maya", category="profile")
    retriever = MnemaRetriever(memory=waiting, user_id="maya", agent="planner")
    [found] = await retriever.ainvoke("When is the launch?")
    assert (found.id, found.page_content) == (str(stored.id), "The launch is on 12 March.")
    assert (found.metadata["category"], found.metadata["metadata"]) == ("tasks", {"ticket": 7})
    prompt = ChatPromptTemplate([("human", "Known: {known}")])
    answered = {"known": retriever} | prompt | FakeListChatModel(responses=["On 12 March."])
    assert (await answered.ainvoke("When is the launch?")).content == "On 12 March."
    forbidden = MnemaRetriever(memory=waiting, user_id="maya", agent="planner", categories=["profile"])
    with pytest.raises(NotAllowed, match="profile"):
        await forbidden.ainvoke("What does Maya fear?")


async def test_a_retriever_without_an_agent_asks_as_the_default_one(waiting: Mnema, memory: AsyncMnema) -> None:
    await memory.remember("Maya fears the launch.", user_id="maya", category="profile")
    [found] = await MnemaRetriever(memory=waiting, user_id="maya").ainvoke("What does Maya fear?")
    assert found.page_content == "Maya fears the launch."


async def test_a_refused_key_is_an_error(waiting_refused: Mnema) -> None:
    history = MnemaChatHistory(waiting_refused, "chat-1", user_id="maya")
    with pytest.raises(Unauthenticated, match="unauthenticated"):
        await apart(lambda: history.messages)
    with pytest.raises(Unauthenticated, match="unauthenticated"):
        await apart(lambda: history.add_user_message("Hello"))
    with pytest.raises(Unauthenticated, match="unauthenticated"):
        await MnemaRetriever(memory=waiting_refused, user_id="maya", agent="planner").ainvoke("launch")


@pytest.mark.long
async def test_the_example_runs(server: str, caller: Caller, memory: AsyncMnema) -> None:
    await memory.remember("Maya deploys on Thursdays.", user_id="maya", category="tasks")
    async with fake_chat("On Thursdays.", "You asked when you deploy.") as model:
        for question, answer in (
            ("When do I deploy?", "On Thursdays."),
            ("What did I ask?", "You asked when you deploy."),
        ):
            said = ("maya", "chat-1", question)
            assert await run_example("langchain_chat.py", server, caller, model.base_url, *said) == answer
        assert "Maya deploys on Thursdays." in model.requests[0]["messages"][0]["content"]
        assert [m["content"] for m in model.requests[1]["messages"][1:-1]] == ["When do I deploy?", "On Thursdays."]
