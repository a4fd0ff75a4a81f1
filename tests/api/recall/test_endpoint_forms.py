"""Queries and stored texts in the forms that an embedding endpoint wants, through every door of the API."""

import pytest

from app.bootstrap import Doubles
from app.config.settings import Settings
from app.ports import Embedder
from app.providers.embeddings.endpoint_options import EndpointOptions, TextRole
from app.providers.embeddings.openai import OpenAIEmbedder
from tests.api import calls
from tests.factories import Caller, serve
from tests.fake_openai import fake_openai

OPTIONS = EndpointOptions(query=TextRole("query: "), passage=TextRole("passage: "))


@pytest.mark.long
async def test_each_door_uses_the_form(settings: Settings, embedder: Embedder, caller: Caller) -> None:
    async with fake_openai(embedder.dimension) as endpoint:
        remote = OpenAIEmbedder(endpoint.base_url, "", embedder.model, embedder.dimension, options=OPTIONS)
        async with serve(settings, Doubles(embedder=remote)) as url, caller.client(url) as http:
            written = await calls.remember(http, "Maya drinks oat milk.")
            turn = {"user_id": "maya", "thread_id": "t", "role": "user", "content": "My tea is green."}
            assert (await http.post("/turns", json=turn)).is_success
            assert (await http.patch(f"/memory/{written['id']}", json={"text": "Maya drinks soy milk."})).is_success
            stored = [text for request in endpoint.requests for text in request["input"]]
            endpoint.requests.clear()
            for _ in range(2):
                await calls.ask(http, query="which milk?")
            search = {"user_id": "maya", "query": "which tea?"}
            assert (await http.post("/search", json=search)).is_success
            asked = [text for request in endpoint.requests for text in request["input"]]
        assert len(stored) == 3
        assert all(text.startswith("passage: ") for text in stored)
        assert asked == ["query: which milk?", "query: which tea?"]
