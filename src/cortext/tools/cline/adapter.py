"""The adapters for Cline, Roo Code and Kilo Code: extensions that keep each task in a folder of files.

The folder is in the extension's storage of every editor, and is named by the task's id. Newer versions of Cline keep
sessions in the user's home folder instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from glob import glob

from cortext.tools.base import Detected, Leftover, Transcript, TranscriptReading, Watch
from cortext.tools.shared.bundle import BundleTool, Piece
from cortext.tools.shared.folders import step_below
from cortext.tools.shared.leftovers import described, renamed, unlisted
from cortext.tools.shared.local import LocalTool

HISTORY = "api_conversation_history.json"
OLD_HISTORY = "claude_messages.json"
SHOWN = "ui_messages.json"
ITEM = "history_item.json"
MESSAGES = ".messages.json"
_CLINE, _ROO, _KILO = "saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code"


class Cline(BundleTool, LocalTool):
    """The adapter for Cline; it only reads."""

    name = "cline"
    title = "Cline"
    tested_version = ""
    folder_variables = ("CLINE_DIR",)
    proof = "samples"
    extension = _CLINE

    def detect(self) -> Detected | None:
        """Return the version of the extension that an editor has; None if none has it."""
        from cortext.tools.shared.vscode import extension

        return extension(self.home, self.extension)

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield the tasks in every editor."""
        folders = None if project is None else {project, os.path.realpath(project)}
        for folder in self._folders():
            for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
                found = self._task(os.path.join(folder, name))
                if found is not None and (folders is None or found.project in folders):
                    yield found

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the folders of tasks without a file of a known name, and such files by other names."""
        known = {os.path.dirname(transcript.path) for transcript in listed}
        for folder in self._folders():
            for path in sorted(glob(os.path.join(folder, "*", ""))):
                task = path.rstrip(os.sep)
                if task not in known and os.listdir(task):
                    yield Leftover(task, f"not recognised as a task of {self.title}: it is {described(task)}")
                names = (HISTORY, OLD_HISTORY, SHOWN, ITEM, os.path.basename(task) + MESSAGES)
                paths = [os.path.join(task, name) for name in names]
                others = {other for path in paths for other in renamed(path, paths)} if task in known else ()
                yield from unlisted(sorted(others), listed, self.title)

    def watched(self) -> Watch:
        """Return the folders of all tasks."""
        return Watch(folders=self._folders())

    def changed(self, path: str) -> list[Transcript]:
        """Return the task whose folder a file is in."""
        for folder in self._folders():
            if name := step_below(folder, path):
                found = self._task(os.path.join(folder, name))
                return [found] if found is not None else []
        return []

    def _folders(self) -> list[str]:
        """Return the folders in which tasks are: of every editor, and outside of any."""
        from cortext.tools.shared.vscode import user_folders

        storages = [os.path.join(user, "globalStorage") for user in user_folders(self.home, self.environ)]
        tops = [os.path.join(storage, name) for storage in storages for name in _names(storage, self.extension)]
        return [*(os.path.join(top, "tasks") for top in tops), *self._homes()]

    def _homes(self) -> list[str]:
        """Return the folders outside of any editor."""
        if self.extension != _CLINE:
            return []
        data = os.path.join(self.environ.get("CLINE_DIR") or os.path.join(self.home, ".cline"), "data")
        return [os.path.join(data, "tasks"), os.path.join(data, "sessions")]

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the task that a file belongs to, if it is the main file of one, or a copy."""
        owner = next((name for name in (_ROO, _KILO) if name in path.lower()), _CLINE)
        if owner == self.extension and os.path.basename(path).endswith((HISTORY, OLD_HISTORY, SHOWN, MESSAGES)):
            found = self._task(os.path.dirname(path))
            return found if found is not None and found.path == path else None
        return self.copied_transcript(path)

    def _task(self, folder: str) -> Transcript | None:
        from cortext.tools.cline.read import project_of

        key = os.path.basename(folder)
        names = [name for name in (HISTORY, OLD_HISTORY, key + MESSAGES, SHOWN) if _exists(folder, name)]
        if not names:
            return None
        statuses = [os.stat(os.path.join(folder, name)) for name in names]
        return Transcript(
            tool=self.name,
            key=key,
            path=os.path.join(folder, names[0]),
            project=project_of(folder),
            size=sum(status.st_size for status in statuses),
            changed=max(status.st_mtime_ns for status in statuses),
        )

    def pieces(self, transcript: Transcript) -> Iterator[Piece]:
        """Yield the files of a task that say something about the conversation."""
        from cortext.tools.shared.documents import read_document

        folder, main = os.path.split(transcript.path)
        for name in dict.fromkeys((main, SHOWN, ITEM, f"{transcript.key}.json")):
            if _exists(folder, name):
                text = read_document(os.path.join(folder, name)).decode("utf-8", "replace")
                yield Piece("file", {"name": name.removeprefix(transcript.key), "text": text})

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the messages in these files."""
        from cortext.tools.cline.read import TaskReading

        return TaskReading(transcript, pieces)


class Roo(Cline):
    """The adapter for Roo Code."""

    name = "roo"
    title = "Roo Code"
    extension = _ROO


class Kilo(Cline):
    """The adapter for Kilo Code, as long as it was an extension made from Roo Code."""

    name = "kilo"
    title = "Kilo Code"
    extension = _KILO


def _names(storage: str, extension: str) -> list[str]:
    """Return the folders of an extension: its publisher's name may have capital letters."""
    return [name for name in os.listdir(storage) if name.lower() == extension] if os.path.isdir(storage) else []


def _exists(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))
