"""Committing conversations to git: without secrets, each as a whole, and none forgotten.

A commit that could not be made is recorded in `.workspace/state/uncommitted/`, made with the next save, and reported by
`list` and `doctor` until then.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from cortext.errors import CortextError, SessionBusy, SessionNotFound, UnsafePath
from cortext.io import durable, inside, locks
from cortext.model.amounts import amount
from cortext.model.ids import is_id
from cortext.model.session import Session
from cortext.safety.languages import git_subject
from cortext.safety.secrets.masking import mask
from cortext.services.library.stores import NamedStore
from cortext.services.projects.git import TIMEOUT, CommitResult, Git
from cortext.services.workspace.secrecy import mask_notes, mask_stored, secrets_in, secrets_in_names
from cortext.store.files.layout_paths import LOCKS, SESSION, STATE
from cortext.store.files.merge import restore_log

UNCOMMITTED = os.path.join(STATE, "uncommitted")
_LOCK = os.path.join(STATE, LOCKS, ".git.lock")  # no session can have this name

_UNFINISHED = CommitResult(problem="its commit was not finished", hint="it is committed with the next save")


def commit_session(named_store: NamedStore, session: Session) -> tuple[Session, CommitResult, dict[str, int]]:
    """Commit one conversation, and those that could not be committed before.

    Return the session as it is then, the result of its own commit, and how many secrets were masked in its notes, by
    kind.
    """
    (session,), done, masked = commit_sessions(named_store, [session])
    return session, done, masked


def commit_sessions(
    named_store: NamedStore, sessions: Sequence[Session]
) -> tuple[list[Session], CommitResult, dict[str, int]]:
    """Do the same for several conversations, with one commit."""
    git = Git(named_store.root)
    if not git.is_repository():
        masked_sessions = [mask_stored(named_store.store, session) for session in sessions]
        why = CommitResult(problem="this workspace is not in git", hint="run git init, and the next save is committed")
        return masked_sessions, why, {}
    # Recorded first: a tool may not wait for us and may end us while others use the repository.
    for session in sessions:
        _record(named_store.root, session.id, _UNFINISHED)
    lock = locks.Lock(inside.inside(named_store.root, _LOCK))
    try:
        lock.acquire(TIMEOUT, "the git repository of this workspace")
    except SessionBusy as error:
        busy = CommitResult(problem=error.message, hint="it is committed with the next save")
        for session in sessions:
            _record(named_store.root, session.id, busy)
        return list(sessions), busy, {}
    with lock:
        committed, done, masked = _commit(named_store, git, sessions)
        names = {session.id for session in committed}
        for session_id in uncommitted(named_store.root):
            if session_id not in names:
                _retry_commit(named_store, git, session_id)
    return committed, done, masked


def _commit(
    named_store: NamedStore, git: Git, sessions: Sequence[Session]
) -> tuple[list[Session], CommitResult, dict[str, int]]:
    """Commit conversations: their folders and nothing else, after a final check for secrets."""
    sessions = [mask_stored(named_store.store, session) for session in sessions]
    session_in = {os.path.relpath(session.path, named_store.root): session for session in sessions}
    folders = list(session_in)
    inside = tuple(os.path.join(folder, SESSION) + os.sep for folder in folders)
    changed = git.changed(folders)
    notes = [path for path in changed if not path.startswith(inside)]
    masked = mask_notes(named_store.root, [path for path in notes if path.endswith(".md")])
    # A file that someone else wrote is not ours to change: if it contains a secret, it stays out of git.
    secret = {
        **secrets_in(named_store.root, [path for path in notes if not path.endswith(".md")]),
        **secrets_in_names(named_store.root, notes),
    }
    session = sessions[0]
    if len(sessions) > 1:
        message = f"session update: {amount(len(sessions), 'conversation')}"
    elif changed and not notes:
        message = f"session update: {session.id} ({session.message_count} messages, {session.status})"
    else:
        message = (
            f"{session.type or 'conversation'}: {session.title or session.id} (session state saved, {session.status})"
        )

    def restore(path: str, contents: bytes) -> None:
        target = os.path.join(named_store.root, path)
        owner = next(held for folder, held in session_in.items() if path.startswith(folder + os.sep))
        with named_store.store.open(owner.id):  # no one else writes to it meanwhile
            if path.endswith(".jsonl"):
                restore_log(target, contents)
            else:
                durable.replace_file(target, [contents])

    ours = [os.path.join(folder, SESSION) for folder in folders]
    done = git.commit(folders, git_subject(mask(message).text), ours=ours, restore=restore, without=secret)
    if secret and not done.problem:
        kept = "; ".join(f"{mask(path).text} was not committed: {why}" for path, why in secret.items())
        note = f"{kept}. Remove the secret from it, or list it in .gitignore"
        done.note = f"{done.note}. {note}" if done.note else note
    for session in sessions:
        _record(named_store.root, session.id, done)
    return sessions, done, masked


def finish_commits(named_store: NamedStore) -> list[tuple[Session, CommitResult]]:
    """Make the commits that could not be made before; return each session with the result."""
    git = Git(named_store.root)
    waiting = uncommitted(named_store.root)
    if not waiting or not git.is_repository():
        return []
    lock = locks.Lock(inside.inside(named_store.root, _LOCK))
    lock.acquire(TIMEOUT, "the git repository of this workspace")
    with lock:
        tried = [_retry_commit(named_store, git, session_id) for session_id in waiting]
    return [pair for pair in tried if pair is not None]


def _retry_commit(named_store: NamedStore, git: Git, session_id: str) -> tuple[Session, CommitResult] | None:
    """Retry a commit that could not be made before; its record stays if it still cannot be."""
    try:
        (session,), done, _ = _commit(named_store, git, [named_store.store.get(session_id)])
        return session, done
    except SessionNotFound:
        _record(named_store.root, session_id, CommitResult())
    except CortextError:
        pass  # in use at the moment, for example
    return None


def uncommitted(root: str) -> dict[str, str]:
    """Return the conversations of a workspace that could not be committed, and why."""
    found = {}
    try:
        for name in sorted(filter(is_id, os.listdir(inside.inside(root, UNCOMMITTED)))):
            why = inside.read(root, os.path.join(UNCOMMITTED, name)) or b""
            found[name] = why.decode("utf-8", "replace")[:1000].strip()
    except (OSError, UnsafePath):
        pass  # none, or a save has just committed it; or we may not read it: the next save says so
    return found


def _record(root: str, session_id: str, done: CommitResult) -> None:
    path = os.path.join(UNCOMMITTED, session_id)
    if done.problem:
        inside.write(root, path, f"{done.problem}; {done.hint}\n".encode("utf-8", "surrogateescape"))
    else:
        inside.remove(root, path)
