"""Choosing one of many on the screen: type to narrow, arrows to move, a preview of what is under the cursor.

prompt_toolkit draws it; it is imported only here, when somebody looks at a screen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.styles import Style

from cortext.faces.terminal.table import cut
from cortext.safety import terminal

_STYLE = Style.from_dict({"chosen": "reverse", "dim": "#888888", "title": "bold", "line": "#666666"})


class Picker:
    """The state of the screen: what was typed, what matches, which one is under the cursor."""

    def __init__(
        self,
        rows: Sequence[tuple[str, str]],
        preview: Callable[[int], str],
        matches: Callable[[str], Sequence[int]],
        heading: str,
    ) -> None:
        self.rows, self.preview, self.matches, self.heading = rows, preview, matches, heading
        self.shown: Sequence[int] = range(len(rows))
        self.cursor = 0
        self.search = Buffer(on_text_changed=self._typed, multiline=False)

    def _typed(self, buffer: Buffer) -> None:
        self.shown = self.matches(buffer.text) if buffer.text.strip() else range(len(self.rows))
        self.cursor = 0

    def move(self, by: int) -> None:
        """Up or down, staying on the list."""
        self.cursor = max(0, min(len(self.shown) - 1, self.cursor + by))

    def list_text(self, height: int) -> StyleAndTextTuples:
        """The rows around the cursor."""
        first = max(0, min(self.cursor - height // 2, len(self.shown) - height))
        lines: StyleAndTextTuples = []
        for place in range(first, min(first + height, len(self.shown))):
            title, note = self.rows[self.shown[place]]
            style = "class:chosen" if place == self.cursor else ""
            lines.append((style, f"{'›' if place == self.cursor else ' '} {cut(terminal.line(title), 60)}"))
            lines.append(("class:dim", f"  {cut(terminal.line(note), 60)}\n"))
        return lines or [("class:dim", "  nothing matches: Backspace to widen, Esc to leave")]

    def preview_text(self) -> StyleAndTextTuples:
        """What is under the cursor."""
        if not self.shown:
            return []
        return [("", terminal.block(self.preview(self.shown[self.cursor])))]


def pick(
    rows: Sequence[tuple[str, str]],
    preview: Callable[[int], str],
    matches: Callable[[str], Sequence[int]],
    heading: str,
) -> int | None:
    """The index of the row that the user chose; None where he left with Esc or Ctrl-C."""
    state = Picker(rows, preview, matches, heading)
    keys = KeyBindings()

    @keys.add("up")
    @keys.add("c-p")
    def _(event: KeyPressEvent) -> None:
        state.move(-1)

    @keys.add("down")
    @keys.add("c-n")
    def _(event: KeyPressEvent) -> None:
        state.move(1)

    @keys.add("pageup")
    def _(event: KeyPressEvent) -> None:
        state.move(-10)

    @keys.add("pagedown")
    def _(event: KeyPressEvent) -> None:
        state.move(10)

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result=state.shown[state.cursor] if state.shown else None)

    @keys.add("escape", eager=True)
    @keys.add("c-c")
    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        if not event.app.is_done:  # a key may be pressed twice before the screen is gone
            event.app.exit(result=None)

    screen: Application[int | None] = Application(
        layout=_layout(state), key_bindings=keys, style=_STYLE, full_screen=True, mouse_support=False
    )
    # Esc begins many key sequences: do not make the user wait for the rest of one.
    screen.ttimeoutlen = 0.05
    return screen.run()


def _layout(state: Picker) -> Layout:
    search = Window(BufferControl(state.search, input_processors=[BeforeInput("find: ")]), height=1)
    rows = Window(wrap_lines=False)

    def lines() -> StyleAndTextTuples:
        height = rows.render_info.window_height if rows.render_info else 40
        return state.list_text(max(1, height))

    rows.content = FormattedTextControl(lines)
    preview = Window(FormattedTextControl(state.preview_text), wrap_lines=True)
    heading = Window(FormattedTextControl([("class:title", terminal.line(state.heading))]), height=1)
    help_line: StyleAndTextTuples = [("class:dim", "↑↓ move   Enter choose   Esc leave   type to narrow")]
    body = HSplit(
        [
            heading,
            search,
            Window(char="─", height=1, style="class:line"),
            VSplit([HSplit([rows]), Window(char="│", width=1, style="class:line"), preview]),
            Window(FormattedTextControl(help_line), height=1),
        ]
    )
    return Layout(body, focused_element=search)
