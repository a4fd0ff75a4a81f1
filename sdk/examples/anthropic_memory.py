"""Claude with its memory tool: the files that it writes below /memories are stored in Mnema, for one user.

pip install 'mnema-client[anthropic]'
export MNEMA_URL=http://127.0.0.1:8000 MNEMA_API_KEY=mnema_…
export ANTHROPIC_API_KEY=… MODEL=claude-…
python anthropic_memory.py maya "I deploy on Thursdays. Remember that."
"""

import os
import sys

from anthropic import Anthropic
from mnema_client import Mnema
from mnema_client.adapters.anthropic import MnemaMemoryTool


def run(user: str, question: str) -> str:
    """Return Claude's answer to one message."""
    with Mnema() as memory, Anthropic() as client:
        runner = client.beta.messages.tool_runner(
            model=os.environ["MODEL"],
            max_tokens=2_000,
            messages=[{"role": "user", "content": question}],
            tools=[MnemaMemoryTool(memory, user_id=user)],
        )
        answer = runner.until_done()
    return "\n".join(block.text for block in answer.content if block.type == "text")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python anthropic_memory.py USER MESSAGE")
    print(run(*sys.argv[1:]))
