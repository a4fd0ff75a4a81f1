"""A scripted chat model on loopback that knows Mnema's prompts: it answers and checks them, and fails on demand."""

from tests.fake_llm.server import FakeLlm, Fault, fake_llm

__all__ = ["FakeLlm", "Fault", "fake_llm"]
