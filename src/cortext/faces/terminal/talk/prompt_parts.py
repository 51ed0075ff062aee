"""The pieces that prompt_toolkit wants: our history and completion in its form, and the keys."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History as ToolkitHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from cortext.faces.terminal.talk.history import History
from cortext.safety import terminal
from cortext.services.talk.slash import Complete


class OurHistory(ToolkitHistory):
    """Read once from our file; the prompt itself writes what was typed."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._ours = history

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._ours.load())

    def store_string(self, string: str) -> None:
        """Done by Prompt.ask, when the words are whole."""


class OurCompleter(Completer):
    """What the face offers for the text before the cursor."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for choice in self._complete(document.text_before_cursor):
            about = terminal.line(choice.about)
            yield Completion(
                choice.text, start_position=-choice.length, display=terminal.line(choice.text), display_meta=about
            )


def keys() -> KeyBindings:
    """Enter sends, but after a backslash it goes on in a new line; so does Alt-Enter anywhere."""
    made = KeyBindings()

    @made.add("enter")
    @made.add("c-j")  # what Enter is while the terminal is not ours yet
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @made.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return made
