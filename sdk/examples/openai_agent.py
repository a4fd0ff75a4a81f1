"""An agent on the plain OpenAI SDK that can query its memory with one function, `memory_query`.

pip install mnema-client openai
export MNEMA_URL=http://127.0.0.1:8000 MNEMA_API_KEY=mnema_…
export OPENAI_API_KEY=… OPENAI_BASE_URL=… MODEL=…               # any OpenAI-compatible model
python openai_agent.py maya chat-1 "When is the launch?"
"""

import json
import os
import sys
from typing import Any

from mnema_client import Mnema, MnemaError
from openai import OpenAI

AGENT = "supervisor"
MOST_CALLS = 4
MEMORY_QUERY: Any = {
    "type": "function",
    "function": {
        "name": "memory_query",
        "description": "What is remembered of the user you speak with: facts, preferences, tasks, earlier talk.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "what you want to know, in words"},
                "top_k": {"type": "integer", "minimum": 1, "maximum": 10},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    },
}


def recall(memory: Mnema, user: str, arguments: str) -> str:
    """Return the tool's result. The program chooses the user, not the model."""
    try:
        fields = json.loads(arguments)
        options: Any = {"agent": AGENT, "filters": {"user_id": user}, "top_k": fields.get("top_k")}
        return memory.query(str(fields["query"]), **options).prompt() or "(nothing is remembered of that)"
    except (MnemaError, ValueError, KeyError) as error:
        return f"error: {error}"  # the model may try again with better arguments


def reply(memory: Mnema, model: OpenAI, user: str, thread: str, question: str) -> str:
    """Run one turn: store the user's message, let the model answer with the tool, store its answer."""
    memory.add_turn(question, user_id=user, thread_id=thread, role="user")
    messages: list[Any] = [
        {"role": "system", "content": "Answer briefly. Ask your memory before you say that you do not know."},
        {"role": "user", "content": question},
    ]
    for calls_left in range(MOST_CALLS, -1, -1):
        tools: dict[str, Any] = {"tools": [MEMORY_QUERY]} if calls_left else {}
        name = os.environ.get("MODEL", "gpt-4o")
        message = model.chat.completions.create(model=name, messages=messages, **tools).choices[0].message
        if not message.tool_calls:
            break
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = recall(memory, user, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    answer = message.content or ""
    memory.add_turn(answer or "(nothing)", user_id=user, thread_id=thread, role="assistant", agent_id=AGENT)
    return answer


def main(user: str, thread: str, question: str) -> str:
    """Return the agent's answer to one question."""
    with Mnema() as memory, OpenAI() as model:
        return reply(memory, model, user, thread, question)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python openai_agent.py USER THREAD QUESTION")
    print(main(*sys.argv[1:]))
