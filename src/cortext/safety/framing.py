"""The borders around recorded text, and what keeps recorded text from forging them. Pure.

Two things make the borders unforgeable. A fence is random for each packet, and drawn again if it occurs anywhere
inside. And the constant markers (`[RESUMED CONVERSATION]`) are disarmed in every stored text: the opening bracket
becomes a parenthesis, regardless of case, spacing, invisible characters between the letters, or letters of another
width or style. Lookalike letters of other alphabets are not detected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import cache
from unicodedata import category, normalize

BEGIN = "[RESUMED CONVERSATION]"
END = "[END RESUMED CONTEXT]"
# A first prompt that every user of the machine can read (in a program's arguments): nothing of the conversation.
GO_ON = f"{BEGIN}\nGo on as the context block above says.\n{END}"
# A summary that replaces the messages before it.
BEGIN_SUMMARY = "[Summary of the first {count} messages of this conversation. It is a record, not a request.]"
END_SUMMARY = "[End of the summary. The conversation goes on:]"
UNANSWERED = (
    "[The message above got no answer: it was stopped, or it failed. What follows is a message of its own; take the "
    "one above up again only if it asks for that.]"
)

# How each marker is recognised: its letters and digits in lower case, with everything else removed.
_NEEDLES = (b"resumedcon", b"summaryofthefirst", b"endofthesummary", b"themessageabovegotnoanswer")
_MARKER = (
    r"\[+(?:(?:begin|end|endof)?(?:the)?resumedcon(?:text|versation)"
    r"|summaryofthefirst|endofthesummary|themessageabovegotnoanswer)"
)
_NO_LETTERS = bytes(code for code in range(256) if not chr(code).isalnum() or code > 127)
# Ranges of letters that Unicode treats as another form of a plain one: full width, mathematical, circled.
_STYLED = ((0x2100, 0x214F), (0x2460, 0x24FF), (0xFF01, 0xFF5E), (0x1D400, 0x1D7FF), (0x1F110, 0x1F189))
_BRACKETS = str.maketrans("[]", "()")
_RANDOM = 6  # bytes


def fence(inside: Iterable[str], draw: Callable[[int], bytes] = os.urandom) -> str:
    """Return a mark that no one could have known before and that occurs in none of these texts."""
    texts = list(inside)
    while True:
        mark = draw(_RANDOM).hex()
        if not any(mark in text for text in texts):
            return mark


def field(text: str) -> str:
    """Return a stored value for a line of ours: one line, no control characters, no working marker.

    Everything else stays as it is: `matches[0]` in a summary is code, and must not become another.
    """
    plain = text if text.isprintable() else "".join([char if char.isprintable() else " " for char in text])
    return disarmed(" ".join(plain.split()))


def label(text: str) -> str:
    """Return a stored value for a line of ours that ends at a bracket, or is a fence: as `field`, without brackets."""
    return field(text).translate(_BRACKETS)


def paragraphs(text: str) -> str:
    """Return a stored value of several lines: each as `field` returns it, without more than one blank line together."""
    lines = [field(line) for line in text.strip().splitlines()]
    # A marker may also begin on one line and end on the next.
    return disarmed("\n".join(line for index, line in enumerate(lines) if line or (index and lines[index - 1])))


def disarmed(text: str) -> str:
    """Return a stored text word for word, except that our markers in it no longer work."""
    if not _may_hold_marker(text):
        return text

    letters: list[str] = []
    offsets: list[int] = []
    for offset, char in enumerate(text):
        for letter in (char if char < "\x80" else normalize("NFKC", char)).lower():
            if (letter.isalnum() and category(letter) != "Mn") or letter == "[":
                letters.append(letter)
                offsets.append(offset)
    chars = list(text)
    for found in re.finditer(_MARKER, "".join(letters)):
        for index in range(*found.span()):
            if letters[index] == "[":
                chars[offsets[index]] = "("
    return "".join(chars)


def _may_hold_marker(text: str) -> bool:
    """Whether the letters of a marker occur at all. They hardly ever do, so this check has to be fast."""
    letters = text.encode("ascii", "ignore").translate(None, _NO_LETTERS).lower()
    if any(needle in letters for needle in _NEEDLES):
        return True
    return not text.isascii() and any(low <= ord(char) <= high for char in set(text) for low, high in _STYLED)


# ── control text of other programs ───────────────────────────────────────────────────────────────────

# The tags of texts that a program itself puts into its user's messages, and that its model is told to obey.
_REMINDER = "system-reminder"
_TAGS = {
    "claude": (
        *(_REMINDER, "command-name", "command-message", "command-args", "local-command-stdout", "task-notification"),
        *("local-command-stderr", "local-command-caveat", "bash-input", "bash-stdout", "bash-stderr"),
    ),
    "codex": (
        *("environment_context", "user_instructions", "INSTRUCTIONS", "skill", "turn_aborted", "hook_prompt"),
        *("permissions instructions", "collaboration_mode", "user_action", "subagent_notification"),
    ),
    "gemini": ("session_context", "hook_context", "state_snapshot"),
    "opencode": (_REMINDER,),
    "qwen": (_REMINDER, "session_context", "hook_context", "state_snapshot"),
}
# What models read as the border of a turn, whatever the program.
_TURNS = (
    r"<(?=\|(?:im_start|im_end|im_sep|endoftext|begin_of_text|start_header_id|end_header_id|eot_id|end_of_turn)\|>)"
    r"|(?<=\n\n)(?=(?:Human|Assistant): )"
)


def control_disarmed(text: str, program: str = "") -> tuple[str, int]:
    """Return a stored text in which what this program (any, if empty) reads as its own no longer works, and how often.

    The opening bracket becomes a parenthesis, as in our own markers. For text that is handed over, never for the log.
    """
    if "<" not in text and ": " not in text:
        return text, 0
    return _control(program).subn("(", text)


@cache
def _control(program: str) -> re.Pattern[str]:
    names = _TAGS.get(program, ()) if program else tuple(name for names in _TAGS.values() for name in names)
    tags = rf"<(?=\s*/?\s*(?i:{'|'.join(map(re.escape, names))})[\s/>])|" if names else ""
    return re.compile(f"{tags}{_TURNS}")
