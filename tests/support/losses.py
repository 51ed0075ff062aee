"""A program loses a conversation, and `cortext restore --into` puts it back.

The program's own list must show it again, and its own resume must send it to the model with its tool call.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

from tests.support.moves import ASKED, Place, sent
from tests.support.pairs import TURN_SECONDS
from tests.support.screen import Screen

AGAIN = "Which bird was it?"
# How each program lists its conversations: with a command, or on its screen.
LISTS = {
    "gemini": ("--list-sessions",),
    "opencode": ("session", "list"),
    "qwen": ("sessions", "list"),
    "kimi": ("session", "list"),
    "continue": ("ls", "--json"),
}
SCREENS = {"claude": ("--resume",), "codex": ("resume",), "copilot": ("--resume",), "pi": ("--resume",)}


def removed(place: Place, key: str) -> None:
    """The conversation is deleted: by its program if that has a command for it, else its file or folder is removed."""
    [(name, tool)] = place.desk.tools.items()
    path = tool.files_of(key)
    if name == "opencode":
        assert tool.execute([tool.program, "session", "delete", key], cwd=place.project).returncode == 0
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    assert key not in tool.sessions()


def hidden(place: Place, key: str) -> None:
    """The folder with all conversations has another name, as after an update that looks for them elsewhere."""
    [tool] = place.desk.tools.values()
    folder = place.desk.home / tool.store
    folder.rename(folder.with_name(f"{folder.name}-v1"))
    assert key not in tool.sessions()


def broken(place: Place, key: str) -> None:
    """A record in the middle of the file is cut."""
    [tool] = place.desk.tools.values()
    path = next(path for path in tool.transcripts() if path.is_relative_to(tool.files_of(key)))
    lines = path.read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    path.write_bytes(b"".join([*lines[:middle], b'{"type": "user", "uuid"\n', *lines[middle:]]))


LOSSES: dict[str, Callable[[Place, str], None]] = {"removed": removed, "hidden": hidden, "broken": broken}
# Programs whose conversations are not lines of a file.
WITHOUT_LINES = ("opencode", "continue")


def problems_after_loss(lose: Callable[[Place, str], None], place: Place, key: str) -> list[str]:
    """Lose an imported conversation and put it back; return what the program's own list and resume then lack."""
    [(name, tool)] = place.desk.tools.items()
    [row] = place.desk.cortext("list", "--project", "--json", cwd=place.project).json
    lose(place, key)
    restored = place.desk.cortext("restore", "--into", name, row["id"], "--json", cwd=place.project)
    if restored.code:
        return [f"restore: {restored.err}"]
    key = restored.json["key"]
    problems = _unlisted(place, name, key)
    again = place.desk.cortext("restore", "--into", name, row["id"], "--json", cwd=place.project).json["how"]
    if not again.startswith("nothing to do"):
        problems.append(f"restored once more: {again}")
    place.desk.server.forget()
    place.desk.server.push(*["A heron."] * 3)
    done = tool.run(AGAIN, cwd=place.project, resume=key, timeout=TURN_SECONDS)
    asked = [
        request for request in place.desk.server.turns if ASKED in str(request.body) and AGAIN in str(request.body)
    ]
    if not asked:
        return [*problems, f"its own resume sent nothing of it: {done.stderr[-300:]}"]
    words = sent(asked[0])
    texts = [ASKED, f"Let me open {place.project}/note.txt.", f"cat {place.project}/note.txt", "the heron stands still"]
    offsets = [words.find(text) for text in [*texts, AGAIN]]
    return problems if -1 not in offsets and offsets == sorted(offsets) else [*problems, f"its own resume sent {words}"]


def _unlisted(place: Place, name: str, key: str) -> list[str]:
    """Return a problem if the program's own list does not have a conversation."""
    tool = place.desk.tools[name]
    if name in LISTS:
        shown = tool.execute([tool.program, *LISTS[name]], cwd=place.project, timeout=TURN_SECONDS)
        found = key in shown.stdout or ASKED in shown.stdout
        return [] if found else [f"its own list has {shown.stdout[-300:]} {shown.stderr[-300:]}"]
    with Screen(place.desk.home.parent, [tool.program, *SCREENS[name]], tool.env, place.project) as screen:
        try:
            screen.wait_for("Remember the heron", timeout=60)
        except AssertionError as error:
            return [str(error)]
    return []
