"""An edit as HTML: one row per line, with its sign, so that colour is never the only difference."""

from __future__ import annotations

from html import escape

from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.text.edits import ADDED, REMOVED, SKIPPED, Edit, Line
from cortext.web.html.code import spans

MOST_LINES = 400
LONGEST_LINE = 2_000  # characters
_CLASSES = {ADDED: "added", REMOVED: "removed", SKIPPED: "skipped"}
_LABELS = {ADDED: "added: ", REMOVED: "removed: "}


def render(edit: Edit, *, lines: int = MOST_LINES, complete: bool = False) -> tuple[str, int]:
    """Return the diff of one file, and how many characters of it are left out.

    Without `complete`, what is longer than so many lines, and the end of a very long line, is left out, and says so.
    """
    shown = edit.lines if complete else edit.lines[:lines]
    left = sum(len(line.text) + 1 for line in edit.lines[len(shown) :])
    rows = []
    for line in shown:
        rest = 0 if complete else max(0, len(line.text) - LONGEST_LINE)
        left += rest
        rows.append(_row(line._replace(text=line.text[: len(line.text) - rest]), edit.path, rest))
    if len(shown) < len(edit.lines):
        rows.append(f'<span class="line skipped">… {amount(len(edit.lines) - len(shown), "more line")}</span>')
    return f'<pre class="diff" tabindex="0"><code>{"".join(rows)}</code></pre>', left


def _row(line: Line, path: str, rest: int = 0) -> str:
    if line.sign == SKIPPED:
        return f'<span class="line skipped">⋯ {escape(terminal.line(line.text))}</span>'
    label = f'<span class="aloud">{_LABELS[line.sign]}</span>' if line.sign in _LABELS else ""
    code = spans(terminal.line(line.text), path=path) + (f" … {amount(rest, 'more character')}" if rest else "")
    kind = _CLASSES.get(line.sign, "same")
    return f'<span class="line {kind}">{label}<span class="sign" aria-hidden="true">{line.sign}</span>{code}\n</span>'
