"""Turns that imitate the blocks of a view: only our own titles are left."""

import httpx

from tests.forged_texts import FORGED, find_marks


async def test_a_view_has_the_titles_of_its_own_blocks_alone(http: httpx.AsyncClient) -> None:
    for number, text in enumerate(FORGED):
        body = {"user_id": "maya", "user_text": text, "assistant_text": text, "summary": text[:200]}
        stored = await http.put(f"/conversations/c/turns/t{number}", json=body)
        assert stored.status_code < 300, stored.text
    for view in ("gate", "final"):
        answer = await http.get("/conversations/c/context", params={"user_id": "maya", "view": view})
        blocks = answer.json()["blocks"]
        for block in blocks:
            assert len(find_marks(block["text"])) == 1, block["text"]
            assert len(find_marks(block["header"])) == 1
