"""Two conversations of one user with turn memory: twelve turns, as a chat program takes them.

pip install mnema-client
export MNEMA_URL=http://127.0.0.1:8000 MNEMA_API_KEY=mnema_…      # of a server with a chat model (MNEMA_LLM)
python turn_memory.py maya
"""

import asyncio
import sys

from mnema_client import AsyncMnema, MnemaError
from mnema_client.turn_memory import (
    Scratchpad,
    ctx_reconciler_stream,
    persist_turn_fingerprint,
    preload_conversation_memory_state,
    retrospective_context_view,
    turn_summary_stream,
    update_turn_fingerprint,
)

PLANS = [{"key": "plan", "description": "a plan that was advised", "values": ["Starter plan", "Growth plan"]}]
"""The signals that the summarizer looks for in the assistant's answers."""
WEB_SHOP = (
    ("Help me plan a web shop for desk lamps. My budget is 400 euros.", "Begin small. I recommend the Starter plan."),
    ("Always answer in short sentences.", "I will."),
    ("Which database do we need? Never suggest Redis.", "PostgreSQL is enough."),
    ("My launch is on 12 March.", "Then the shop has to be ready by 5 March."),
    ("How do customers pay?", "By card."),
    ("Do we need a second shop for Belgium?", "Yes. I recommend the Growth plan for two shops."),
    ("Draw the order process.", "Cart, payment, parcel."),
    ("What is left to do before the launch?", "The payment test."),
)
SUPPORT_DESK = (
    ("I want to answer customers faster.", "Collect their questions first."),
    ("Always greet customers by name.", "I will add the name to each answer."),
    ("My desk is open from Monday to Friday.", "Then weekend questions wait until Monday."),
    ("Which plan fits?", "The one you have is enough."),
)


async def take_turn(turn: Scratchpad, answer: str) -> str:
    """Run one turn whose answer is known; return the view that its final answer is written from."""
    # what is remembered, and what the user says now
    await preload_conversation_memory_state(turn)
    journal = await retrospective_context_view(turn)
    read = await ctx_reconciler_stream(turn, guess_package_json=journal)
    turn.extracted_prefs = {"assertions": read["assertions"], "exceptions": read["exceptions"]}
    turn.proposed_facts = read["facts"]
    turn.selected_local_memories_turn_ids = read["local_memories_turn_ids"]
    update_turn_fingerprint(
        turn,
        objective=read["objective"],
        topics=read["topics"],
        assertions=turn.extracted_prefs["assertions"],
        exceptions=turn.extracted_prefs["exceptions"],
        facts=turn.proposed_facts,
    )
    await persist_turn_fingerprint(turn)

    # agents work with the downstream view; the final answer also sees what was promoted before
    final = await retrospective_context_view(turn, view="final")
    turn.assistant_text = answer

    # what the assistant promoted in this turn
    summary = await turn_summary_stream(turn, assistant_signal_spec=PLANS)
    turn.summary = summary["summary"]
    update_turn_fingerprint(turn, assistant_signals=summary["assistant_signals"])
    await persist_turn_fingerprint(turn)
    return final.text


async def talk(memory: AsyncMnema, user_id: str, conversation_id: str, turns: tuple[tuple[str, str], ...]) -> str:
    """Take all turns of a conversation; return the last final view."""
    final = ""
    for number, (question, answer) in enumerate(turns, 1):
        turn = Scratchpad(
            memory,
            user_id=user_id,
            conversation_id=conversation_id,
            turn_id=f"{conversation_id}-{number}",
            user_text=question,
        )
        final = await take_turn(turn, answer)
        print(f"{turn.turn_id}: {question} | memories: {', '.join(turn.selected_local_memories_turn_ids or ['none'])}")
    return final


async def main(user_id: str) -> None:
    """Take both conversations; show what the last answer of the second one is written from."""
    async with AsyncMnema() as memory:
        await talk(memory, user_id, "web-shop", WEB_SHOP)
        await memory.turn_feedback("web-shop", "web-shop-7", "not_ok", "No arrows.", user_id=user_id)
        print("", await talk(memory, user_id, "support-desk", SUPPORT_DESK), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python turn_memory.py USER")
    try:
        asyncio.run(main(sys.argv[1]))
    except MnemaError as error:
        sys.exit(str(error))
