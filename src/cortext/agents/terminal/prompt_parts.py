"""The input line that prompt_toolkit draws: history and completion in its form, the key bindings, and asking.

It is imported after a plain prompt is on the screen: see `prompt`.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Iterable

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History as ToolkitHistory
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.shortcuts import CompleteStyle

from cortext.agents.talk.slash import Complete
from cortext.safety import terminal

GRACE = 0.05  # seconds in which the rest of a paste follows an Enter
_ENTER = (Keys.ControlM, Keys.ControlJ)


class LivePrompt:
    """Asks on a terminal. `load` reads the history once; `complete` gives the completions of a text."""

    def __init__(self, load: Callable[[], list[str]], complete: Complete) -> None:
        self._typed_ahead = False  # whether keys were pressed before the prompt was shown, while an answer was written
        self._session: PromptSession[str] = PromptSession(
            history=PromptHistory(load),
            completer=PromptCompleter(complete),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            multiline=True,
            key_bindings=keys(lambda: self._typed_ahead),
            prompt_continuation=lambda width, line, wrapped: "." * max(0, width - 1) + " ",
            erase_when_done=False,
        )

    def ask(
        self, label: str, default: str, shown: Callable[[], object] | None, *, is_first: bool, is_coloured: bool
    ) -> str:
        """Return what is typed; `shown` is called when the prompt is on screen. Raises as `Prompt.ask`."""
        self._typed_ahead = not is_first and self._is_waiting()
        # A callable, so that markup in the label stays text. We handle signals, so that none is ever unhandled.
        return self._session.prompt(
            lambda: [("bold ansigreen" if is_coloured else "", label)],
            default=default,
            pre_run=lambda: _call(shown),
            handle_sigint=False,
        )

    def interrupted_after_enter(self) -> bool:
        """Whether Ctrl-C was pressed right after Enter, while it was still a key and not yet a signal.

        All other keys are kept for the next prompt.
        """
        ahead = self._ahead()
        kept = [key for key in ahead if key.key != Keys.ControlC]
        store_typeahead(self._session.app.input, kept)
        return len(kept) < len(ahead)

    def _is_waiting(self) -> bool:
        """Whether keys were pressed before the prompt is shown."""
        ahead = self._ahead()
        store_typeahead(self._session.app.input, ahead)
        return bool(ahead)

    def _ahead(self) -> list[KeyPress]:
        """Take the keys that no prompt has read."""
        source = self._session.app.input
        return [*get_typeahead(source), *source.read_keys()]


def _call(shown: Callable[[], object] | None) -> None:
    if shown is not None:
        shown()


class PromptHistory(ToolkitHistory):
    """The history, which `load` reads once, oldest first; the prompt itself writes to it."""

    def __init__(self, load: Callable[[], list[str]]) -> None:
        super().__init__()
        self._load = load

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._load())

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


def keys(is_typed_ahead: Callable[[], bool]) -> KeyBindings:
    """Return the key bindings: Enter sends; after a backslash it starts a new line, as Alt-Enter does anywhere.

    Enter also starts a new line if text is waiting behind it: it was pasted into a terminal that does not mark pastes.
    Only one line that was typed ahead, and the beginning of the next, are taken for what they look like:
    `is_typed_ahead` says whether keys were pressed before the prompt was shown, while an answer was written.
    """
    bindings = KeyBindings()

    @bindings.add("enter")
    @bindings.add("c-j")  # what Enter sends before prompt_toolkit has set up the terminal
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif _is_pasted(event, is_typed_ahead()):
            buffer.insert_text(_pasted(event))
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings


def _is_pasted(event: KeyPressEvent, is_typed_ahead: bool) -> bool:
    """Whether text is waiting behind this Enter, so that both were pasted."""
    waiting = _waiting(event)
    following = next((key for key in waiting if key.key != Keys.CPRResponse), None)
    if following is None or not (following.key in _ENTER or _is_text(following)):
        return False
    return not is_typed_ahead or any(key.key in _ENTER for key in waiting)


def _pasted(event: KeyPressEvent) -> str:
    """Take the rest of a paste from the keys that are waiting; its last Enter stays, and sends."""
    text = ["\n"]
    while waiting := _waiting(event):
        if waiting[0].key in _ENTER:
            if len(_waiting(event, 2)) < 2 or not (waiting[1].key in _ENTER or _is_text(waiting[1])):
                break
            text.append("\n")
        elif _is_text(waiting[0]):
            text.append(waiting[0].data)
        elif waiting[0].key != Keys.CPRResponse:
            break
        waiting.popleft()
    return "".join(text)


def _waiting(event: KeyPressEvent, least: int = 1) -> deque[KeyPress]:
    """Return the keys that are waiting; if these are too few, read what arrives within a moment."""
    waiting, source = event.key_processor.input_queue, event.app.input
    if len(waiting) < least and select.select([source.fileno()], [], [], GRACE)[0]:
        event.key_processor.feed_multiple(source.read_keys())
    return waiting


def _is_text(key: KeyPress) -> bool:
    return key.key == Keys.ControlI or (len(key.key) == 1 and key.key.isprintable())
