"""`cortext mcp`: serve past conversations to the AI tool that starts it, over standard input and output."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cortext.errors import CortextError
from cortext.faces.mcp.pages import Answer

if TYPE_CHECKING:
    from cortext.faces.mcp.context import Context


def run(later: Callable[[], None]) -> int:
    """Serve until the client closes standard input; `later` finishes the index in the background."""
    # The thread that reads standard input cannot be interrupted: a tool that stops us by a signal must not wait for it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    folder = os.getcwd()
    context: Context | None = None

    def call(name: str, arguments: dict[str, Any], client: str) -> Answer:
        # Built at the first call, in the thread that uses it: the tool waits for the start, which opens no stores.
        nonlocal context
        from cortext.faces.mcp.context import Context
        from cortext.faces.mcp.tools import call as answer

        current = context or Context(folder, later)
        current.client = client
        # After an unexpected error, the next call opens everything again.
        context = None
        try:
            made = answer(current, name, arguments)
        except CortextError:
            context = current
            raise
        context = current
        return made

    from cortext.faces.mcp.server import serve

    serve(call)
    return 0
