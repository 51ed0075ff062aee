"""`cortext hook TOOL`: called by the AI tools themselves, with an event on standard input.

It must never disturb the tool: it always exits 0, prints nothing that is not meant for the tool, and writes a log if
something fails.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from cortext.config import folders
from cortext.io import durable
from cortext.model import clock
from cortext.safety.secrets.masking import mask

if TYPE_CHECKING:
    from cortext.wiring.stores import Stores

LARGEST_EVENT = 64 << 20  # bytes


def run(arguments: list[str]) -> int:
    """Handle the event; whatever happens, return 0."""
    if os.environ.get("CORTEXT_HOOKS") == "off":  # we started the tool ourselves and store its answer
        return 0
    try:
        payload = sys.stdin.buffer.read(LARGEST_EVENT)
        from cortext.services.events.hooks import handle
        from cortext.services.projects.workspaces import adopt_workspace
        from cortext.wiring import stores, tools

        def stores_at(folder: str) -> Stores:
            opened = stores.Stores(folder)
            adopt_workspace(opened.workspace)
            return opened

        answer = handle(stores_at, tools.hooks(arguments[0] if arguments else ""), payload)
        if answer:
            print(answer)
    except BaseException as error:
        _log(arguments, error)
        _record_failure(arguments, error)
    return 0


def _record_failure(arguments: list[str], error: BaseException) -> None:
    """Have `list`, `doctor` and the next command report that this hook failed, unless that is recorded already."""
    try:
        from cortext.services.capture import intake, uncaptured
        from cortext.services.events.hooks import FAILURE_RECORDED

        if isinstance(error, Exception) and FAILURE_RECORDED not in getattr(error, "__notes__", ()):
            tool, why = arguments[0] if arguments else "", f"its hook failed: {intake.reason_of(error)}"
            uncaptured.record(tool, "", "", why, hook=True)
    except Exception as second:
        print(f"cortext: {second}", file=sys.stderr)


def _log(arguments: list[str], error: BaseException) -> None:
    """Write one entry to the log; if even that fails, only standard error is left."""
    try:
        import traceback

        durable.ensure_folder(folders.state())
        text = f"{clock.now()} hook {' '.join(arguments)}: {''.join(traceback.format_exception(error))}\n"
        durable.append_once(os.path.join(folders.state(), "hook.log"), mask(text).text.encode("utf-8", "replace"))
    except BaseException as second:
        print(f"cortext: {second}", file=sys.stderr)
