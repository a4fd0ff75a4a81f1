"""An agent on the plain OpenAI SDK that may ask its memory with one function, `memory_query`.

pip install mnema openai
export MNEMA_URL=http://127.0.0.1:8000 MNEMA_API_KEY=mnema_…
export OPENAI_API_KEY=… OPENAI_BASE_URL=… MODEL=…               # any OpenAI-compatible model
python openai_agent.py maya chat-1 "When is the launch?"
"""

import json
import os
import sys
from typing import Any

from mnema import Mnema, MnemaError
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
    """The tool's answer. Whose memory is asked is the program's to say, not the model's."""
    try:
        asked = json.loads(arguments)
        fields: Any = {"agent": AGENT, "filters": {"user_id": user}, "top_k": asked.get("top_k")}
        return memory.query(str(asked["query"]), **fields).prompt() or "(nothing is remembered of that)"
    except (MnemaError, ValueError, KeyError) as error:
        return f"error: {error}"  # the model may ask again, better


def reply(memory: Mnema, model: OpenAI, user: str, thread: str, question: str) -> str:
    """One turn: what the user says is stored, the model answers with the tool at hand, its answer is stored."""
    memory.add_turn(question, user_id=user, thread_id=thread, role="user")
    messages: list[Any] = [
        {"role": "system", "content": "Answer briefly. Ask your memory before you say that you do not know."},
        {"role": "user", "content": question},
    ]
    for calls_left in range(MOST_CALLS, -1, -1):
        tools: dict[str, Any] = {"tools": [MEMORY_QUERY]} if calls_left else {}
        name = os.environ.get("MODEL", "gpt-4o")
        said = model.chat.completions.create(model=name, messages=messages, **tools).choices[0].message
        if not said.tool_calls:
            break
        messages.append(said.model_dump(exclude_none=True))
        for call in said.tool_calls:
            found = recall(memory, user, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
    answer = said.content or ""
    memory.add_turn(answer or "(nothing)", user_id=user, thread_id=thread, role="assistant", agent_id=AGENT)
    return answer


def main(user: str, thread: str, question: str) -> str:
    """The agent's answer to one question."""
    with Mnema() as memory, OpenAI() as model:
        return reply(memory, model, user, thread, question)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python openai_agent.py USER THREAD QUESTION")
    print(main(*sys.argv[1:]))
