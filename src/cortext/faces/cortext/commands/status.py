"""`cortext` without a command: the workspace, the active conversations, and what to do next."""

from __future__ import annotations

from cortext.faces.cortext.commands._listing import SERVED, import_offered, listing_with_notes
from cortext.faces.terminal.args import stores_for
from cortext.faces.terminal.output import paint, report_missing
from cortext.model import clock
from cortext.model.amounts import amount
from cortext.model.query import Query
from cortext.model.status import ACTIVE
from cortext.safety import terminal


def run(arguments: list[str]) -> int:
    """Print a short overview."""
    stores = stores_for()
    offered = import_offered(stores)
    listing, notes = listing_with_notes(stores)
    listing = listing.reachable()
    for line in notes:
        print(terminal.line(f"Note: {line}"))
    if stores.workspace:
        print(f"{paint('Workspace', 'bold')} {terminal.line(stores.workspace)}")
    else:
        print(f"No workspace here. {paint('cortext init', 'green')} sets one up in this folder.")
    limit = listing.limit(SERVED)
    rows = listing.rows(Query(filters={"is": "unarchived"}, limit=limit))
    if not rows and listing.away:
        return report_missing(listing.away)
    if not rows:
        if offered:
            print(offered)
            return 0
        print(f"Nothing is stored yet. {paint('cortext import', 'green')} imports what your AI tools have stored;")
        print(f"{paint('cortext demo', 'green')} makes a workspace to try out.")
        return 0
    active = [row for row in rows if row.status == ACTIVE]
    earlier = [row for row in rows if row.status != ACTIVE]
    for label, some in (("active ", active[:5]), (paint("earlier", "dim"), earlier[:3])):
        for row in some:
            print(f"  {label}  {terminal.line(row.name)} {paint(f'({clock.ago(row.last_active)})', 'dim')}")
    total = f"{'At least ' if 0 < limit == len(rows) else ''}{amount(len(rows), 'conversation')} in all"
    print(f"{total}. {paint('cortext resume', 'green')} continues one, {paint('cortext help', 'green')} shows more.")
    return report_missing(listing.away)
