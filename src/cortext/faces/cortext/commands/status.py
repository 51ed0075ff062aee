"""`cortext` with nothing: where you are, what is active, what to do next."""

from __future__ import annotations

from cortext.faces.terminal.style import paint
from cortext.model import clock
from cortext.model.status import ACTIVE
from cortext.safety import terminal
from cortext.services.lifecycle import notices, sweep
from cortext.services.stores import all_sessions
from cortext.wiring import Wiring


def run(arguments: list[str]) -> int:
    """A short look around."""
    wiring = Wiring()
    stores = wiring.stores()
    minutes = wiring.settings["workspace.pause_minutes"]
    sweep(stores, minutes, commit=wiring.settings["workspace.commit"])
    found_here = all_sessions(stores)
    for notice in notices(found_here):
        print(terminal.line(f"Note: {notice}"))
    if wiring.workspace:
        print(f"{paint('Workspace', 'bold')} {terminal.line(wiring.workspace)}")
    else:
        print(f"No workspace here. {paint('cortext init', 'green')} makes this folder one.")
    if not found_here:
        print(f"Nothing is kept yet. {paint('cortext import', 'green')} takes in what your AI tools have stored;")
        print(f"{paint('cortext demo', 'green')} shows what it is like.")
        return 0
    active = [item for item in found_here if item.session.shown_status == ACTIVE]
    for item in active[:5]:
        print(f"  active   {_line(item.session.title or item.session.id, item.session.last_active)}")
    for item in [item for item in found_here if item not in active][:3]:
        print(f"  {paint('earlier', 'dim')}  {_line(item.session.title or item.session.id, item.session.last_active)}")
    todo = f"{paint('cortext resume', 'green')} continues one; `cortext --help` has more"
    print(f"{len(found_here)} conversations in all. {todo}.")
    return 0


def _line(title: str, when: str) -> str:
    return f"{terminal.line(title)} {paint(f'({clock.ago(when)})', 'dim')}"
