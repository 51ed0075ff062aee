"""`cortext mcp`: past conversations for the AI tool that starts us, over standard input and output."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cortext.errors import CortextError
from cortext.faces.mcp.pages import Answer

if TYPE_CHECKING:
    from cortext.faces.mcp.world import World


def run(later: Callable[[], None]) -> int:
    """Serve until the client closes our input; `later` finishes the index in the background."""
    # The thread that reads our input cannot be woken: a tool that says goodbye by a signal must not wait for it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    folder = os.getcwd()
    world: World | None = None

    def call(name: str, arguments: dict[str, Any]) -> Answer:
        # Built at the first call, in the thread that uses it: the tool waits for our start, not for our stores.
        nonlocal world
        from cortext.faces.mcp.tools import call as answer
        from cortext.faces.mcp.world import World

        here = world or World(folder, later)
        # Whatever goes wrong in a way that we did not foresee, the next call opens everything anew.
        world = None
        try:
            made = answer(here, name, arguments)
        except CortextError:
            world = here
            raise
        world = here
        return made

    from cortext.faces.mcp.server import serve

    serve(call)
    return 0
