"""A supervisor, a planner and an executor on LangGraph that share one Mnema server.

Mnema stores what the team knows about a user (memory), the plans (store) and the state of every thread (checkpoints).
Stop the program and run it again with the same thread, and it goes on.

    pip install 'mnema-client[langgraph]' openai
    export MNEMA_URL=http://127.0.0.1:8000 MNEMA_API_KEY=mnema_…    # a key that is bound to no agent
    export OPENAI_API_KEY=… OPENAI_BASE_URL=… MODEL=…               # any OpenAI-compatible model
    python langgraph_team.py maya launch "Plan the launch of the lamp."
"""

import asyncio
import operator
import os
import sys
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from mnema_client import AsyncMnema
from mnema_client.langgraph import MnemaSaver, MnemaStore
from openai import AsyncOpenAI


class Team(TypedDict):
    """The state that a checkpoint holds."""

    user: str
    thread: str
    task: str
    done: Annotated[list[str], operator.add]
    next: str


class Members:
    """The nodes. Each queries the memory under its own agent name, so each sees only its own categories."""

    def __init__(self, memory: AsyncMnema, model: AsyncOpenAI) -> None:
        self.memory, self.model = memory, model

    async def ask(self, agent: str, order: str, state: Team) -> str:
        """Call the model once, with what this agent should know in front."""
        context = await self.memory.query(
            state["task"], agent=agent, filters={"user_id": state["user"]}, thread_id=state["thread"], top_k=5
        )
        system = f"You are the {agent} of a team. {order}\n\nWhat is known:\n{context.prompt() or '(nothing)'}"
        task = "\n".join([f"Task: {state['task']}", *state["done"]])
        messages: list[Any] = [{"role": "system", "content": system}, {"role": "user", "content": task}]
        answer = await self.model.chat.completions.create(model=os.environ.get("MODEL", "gpt-4o"), messages=messages)
        return (answer.choices[0].message.content or "").strip()

    async def supervisor(self, state: Team) -> dict[str, Any]:
        """Choose the next node."""
        reply = await self.ask("supervisor", "Answer with one word: planner, executor or finish.", state)
        return {"next": reply.split()[0].lower() if reply else "finish"}

    async def planner(self, state: Team, runtime: Runtime) -> dict[str, Any]:
        """Make a plan and store it for the executor and for later threads."""
        plan = await self.ask("planner", "Make a short plan.", state)
        assert runtime.store is not None
        await runtime.store.aput(("plans", state["user"]), state["thread"], {"text": plan})
        return {"done": [f"Plan: {plan}"]}

    async def executor(self, state: Team, runtime: Runtime) -> dict[str, Any]:
        """Carry out the plan, and remember the result."""
        assert runtime.store is not None
        plans = await runtime.store.asearch(("plans", state["user"]), query=state["task"], limit=1)
        plan = plans[0].value["text"] if plans else "(none)"
        result = await self.ask("executor", f"Carry this plan out and report in one sentence. Plan: {plan}", state)
        await self.memory.remember(
            result, user_id=state["user"], category="tasks", agent_id="executor", thread_id=state["thread"], trim=True
        )
        return {"done": [f"Done: {result}"]}


def build(members: Members, saver: MnemaSaver, store: MnemaStore) -> Any:
    """Build the graph: the supervisor delegates; planner and executor report back."""
    graph = StateGraph(Team)
    for node in (members.supervisor, members.planner, members.executor):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "supervisor")
    graph.add_edge("planner", "supervisor")
    graph.add_edge("executor", "supervisor")
    nodes = {"planner": "planner", "executor": "executor"}
    graph.add_conditional_edges("supervisor", lambda state: nodes.get(state["next"], END))
    return graph.compile(checkpointer=saver, store=store)


async def run(user: str, thread: str, task: str) -> list[str]:
    """Return what the team did for the task, in this run and before."""
    saver = MnemaSaver(user_id=user)
    store = MnemaStore(index={"fields": ["text"]}, user_of=lambda namespace: namespace[-1])
    async with AsyncMnema() as memory, AsyncOpenAI() as model:
        team = build(Members(memory, model), saver, store)
        start = {"user": user, "thread": thread, "task": task, "done": [], "next": ""}
        state = await team.ainvoke(start, {"configurable": {"thread_id": thread}, "recursion_limit": 20})
    await saver.aclose()
    await store.aclose()
    return list(state["done"])


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python langgraph_team.py USER THREAD TASK")
    print("\n".join(asyncio.run(run(*sys.argv[1:]))))
