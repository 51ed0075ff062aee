"""A model on loopback in its own process: `python -m tests.safety.kill_model FILE`.

It prints its address, answers until its standard input ends, and appends each question it was asked to FILE.
"""

from __future__ import annotations

import json
import sys

from tests.support.model_reply import Reply, Turn
from tests.support.model_server import ModelServer


class Witness(ModelServer):
    """Records every question before answering it."""

    asked = ""

    def _next_reply(self, conversation: tuple[Turn, ...]) -> Reply:
        question = next((turn.text for turn in reversed(conversation) if turn.role == "user"), "")
        with open(self.asked, "a", encoding="utf-8") as file:
            file.write(json.dumps(question) + "\n")
        return Reply(text="An answer.")


if __name__ == "__main__":
    Witness.asked = sys.argv[1]
    with Witness() as server:
        print(server.url, flush=True)
        sys.stdin.read()
