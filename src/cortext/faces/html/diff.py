"""An edit as HTML: one row per line, with its sign, so that colour is never the only difference."""

from __future__ import annotations

from html import escape

from cortext.faces.html.code import spans
from cortext.safety import terminal
from cortext.services.text.edits import ADDED, REMOVED, SKIPPED, Edit, Line

MOST_LINES = 400
_CLASSES = {ADDED: "added", REMOVED: "removed", SKIPPED: "skipped"}
_LABELS = {ADDED: "added: ", REMOVED: "removed: "}


def render(edit: Edit) -> str:
    """Return the diff of one file; a very long one is cut, and says so."""
    shown = edit.lines[:MOST_LINES]
    rows = [_row(line, edit.path) for line in shown]
    if len(edit.lines) > MOST_LINES:
        rows.append(f'<span class="line skipped">… {len(edit.lines) - MOST_LINES:,} more lines</span>')
    return f'<pre class="diff" tabindex="0"><code>{"".join(rows)}</code></pre>'


def _row(line: Line, path: str) -> str:
    if line.sign == SKIPPED:
        return f'<span class="line skipped">⋯ {escape(terminal.line(line.text))}</span>'
    label = f'<span class="aloud">{_LABELS[line.sign]}</span>' if line.sign in _LABELS else ""
    code = spans(terminal.line(line.text), path=path)
    kind = _CLASSES.get(line.sign, "same")
    return f'<span class="line {kind}">{label}<span class="sign" aria-hidden="true">{line.sign}</span>{code}\n</span>'
