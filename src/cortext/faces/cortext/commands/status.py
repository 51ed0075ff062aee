"""`cortext` with nothing: where you are, what is active, what to do next."""

from __future__ import annotations

from cortext.faces.cortext.commands._listing import look_around
from cortext.faces.terminal.style import paint
from cortext.model import clock
from cortext.model.status import ACTIVE
from cortext.safety import terminal
from cortext.wiring.stores import Stores


def run(arguments: list[str]) -> int:
    """A short look around."""
    stores = Stores()
    listing, told = look_around(stores)
    for line in told:
        print(terminal.line(f"Note: {line}"))
    if stores.workspace:
        print(f"{paint('Workspace', 'bold')} {terminal.line(stores.workspace)}")
    else:
        print(f"No workspace here. {paint('cortext init', 'green')} makes this folder one.")
    rows = listing.rows()
    if not rows:
        print(f"Nothing is kept yet. {paint('cortext import', 'green')} takes in what your AI tools have stored;")
        print(f"{paint('cortext demo', 'green')} shows what it is like.")
        return 0
    active = [row for row in rows if row.status == ACTIVE]
    earlier = [row for row in rows if row.status != ACTIVE]
    for label, some in (("active ", active[:5]), (paint("earlier", "dim"), earlier[:3])):
        for row in some:
            print(f"  {label}  {terminal.line(row.name)} {paint(f'({clock.ago(row.last_active)})', 'dim')}")
    kept = f"{len(rows)} conversation{'s' if len(rows) != 1 else ''} in all"
    print(f"{kept}. {paint('cortext resume', 'green')} continues one, {paint('cortext help', 'green')} says more.")
    return 0
