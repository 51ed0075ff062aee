"""An error as a message for a chat: what happened, and what can be done from there.

What a provider said may contain its address, our key or a part of it, and paths of this machine. None of them is sent.
"""

from __future__ import annotations

import re

from cortext.agents.telegram.withheld import without_places
from cortext.errors import CortextError, ModelError, ModelRefused, NoModel

# Advice for someone at a keyboard: a command, an option, an environment variable, the network.
_FOR_SHELL = re.compile(
    r"\b(?:cortext|aur|alfred|pip|npm|ollama|claude|gemini|codex)\b|--\w|\b[A-Z]+_[A-Z_]+\b|`"
    r"|\b(?:network|endpoint|the address)\b"
)
_CLAUSES = re.compile(r"\s*;\s*|\s*,?\s+(?:or|then)\s+|\s*,\s+")
_NAME = re.compile(r"[\w.-]+/[\w./:@+-]+")  # of a model: provider/name


def error_text(error: CortextError) -> str:
    """Return an error as a chat message."""
    if isinstance(error, NoModel):
        return "⚠ No model is available: it has to be set up on the command line. Your message is kept."
    lines = [f"⚠ {_capitalised(_message(error))}", _hint(error)]
    if isinstance(error, ModelError):
        lines.append("Your message is kept; /retry asks again.")
    return "\n".join(filter(None, lines))


def _message(error: CortextError) -> str:
    """Return what happened. If a key was refused, the rest of the sentence is about the key."""
    name, colon, rest = error.message.partition(": ")
    if not colon or not isinstance(error, ModelError) or not _NAME.fullmatch(name):
        return without_places(error.message)
    if isinstance(error, ModelRefused) and rest.startswith("the key was not accepted"):
        rest = "the key was not accepted"
    return f"{name}: {without_places(rest, [name, name.partition('/')[2]])}"


def _hint(error: CortextError) -> str:
    """Return the parts of the hint that help in a chat."""
    if not _FOR_SHELL.search(error.hint):
        return without_places(error.hint)
    clauses = (clause for clause in _CLAUSES.split(error.hint) if clause and not clause.startswith("if "))
    helpful = [without_places(clause) for clause in clauses if not _FOR_SHELL.search(clause)]
    return "; ".join(helpful) or "This has to be fixed on the command line."


def _capitalised(text: str) -> str:
    """Begin with a capital letter, unless the first word is a name."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() else text
