"""Chat with memory: an OpenAI-compatible endpoint that remembers (`docs/chat.md`)."""
