"""What prompt_toolkit needs: history and completion in its form, and the key bindings."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History as ToolkitHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from cortext.faces.terminal.talk.history import History
from cortext.safety import terminal
from cortext.services.talk.slash import Complete


class PromptHistory(ToolkitHistory):
    """The history, read once from our file; the prompt itself writes to it."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._history.load())

    def store_string(self, string: str) -> None:
        """Do nothing: Prompt.ask stores the complete message."""


class PromptCompleter(Completer):
    """The completions that the face offers for the text before the cursor."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for choice in self._complete(document.text_before_cursor):
            about = terminal.line(choice.about)
            yield Completion(
                choice.text, start_position=-choice.length, display=terminal.line(choice.text), display_meta=about
            )


def keys() -> KeyBindings:
    """Return the key bindings: Enter sends; after a backslash it starts a new line, as Alt-Enter does anywhere."""
    made = KeyBindings()

    @made.add("enter")
    @made.add("c-j")  # what Enter sends before prompt_toolkit has set up the terminal
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
