"""A LangChain chain with a stored chat history and a retriever over the memory.

pip install 'mnema-client[langchain]' openai
export MNEMA_URL=http://127.0.0.1:8000 MNEMA_API_KEY=mnema_…
export OPENAI_API_KEY=… OPENAI_BASE_URL=… MODEL=…               # any OpenAI-compatible model
python langchain_chat.py maya chat-1 "When do I deploy?"
"""

import os
import sys
from typing import Any

from langchain_core.messages import AIMessage, convert_to_openai_messages
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from mnema_client import Mnema
from mnema_client.adapters.langchain import MnemaChatHistory, MnemaRetriever
from openai import OpenAI

PROMPT = ChatPromptTemplate(
    [("system", "Answer briefly. What is known:\n{known}"), MessagesPlaceholder("history"), ("human", "{question}")]
)


def run(user: str, thread: str, question: str) -> str:
    """Return the chain's answer to one message."""
    with Mnema() as memory, OpenAI() as client:

        def ask(prompt: Any) -> AIMessage:
            messages: Any = convert_to_openai_messages(prompt.to_messages())
            answer = client.chat.completions.create(model=os.environ.get("MODEL", "gpt-4o"), messages=messages)
            return AIMessage(answer.choices[0].message.content or "")

        retriever = MnemaRetriever(memory=memory, user_id=user, agent="planner")
        known = (lambda given: given["question"]) | retriever | (lambda found: "\n".join(d.page_content for d in found))
        chain = RunnableWithMessageHistory(
            RunnablePassthrough.assign(known=known) | PROMPT | RunnableLambda(ask),
            lambda session_id: MnemaChatHistory(memory, session_id, user_id=user),
            input_messages_key="question",
            history_messages_key="history",
        )
        answer = chain.invoke({"question": question}, {"configurable": {"session_id": thread}})
    return str(answer.content)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python langchain_chat.py USER THREAD MESSAGE")
    print(run(*sys.argv[1:]))
