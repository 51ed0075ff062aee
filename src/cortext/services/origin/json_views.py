"""Origins as JSON, with the same field names on the command line and for agents."""

from __future__ import annotations

import msgspec

from cortext.model import clock
from cortext.services.library.json_views import Json, session_json
from cortext.services.origin.history import Commit
from cortext.services.origin.touched import Touch
from cortext.services.origin.why import CommitOrigins, FileOrigins, LineOrigin, Origin


def line_json(path: str, found: LineOrigin) -> Json:
    """Return where a line comes from."""
    return {
        "file": path,
        "line": found.line.number,
        "text": found.line.text,
        "commit": commit_json(found.line.commit),
        **origin_json(found.origin),
    }


def file_json(found: FileOrigins) -> Json:
    """Return where the lines of a file come from."""
    return {
        "file": found.path,
        "lines": found.lines,
        "unknown_lines": found.unknown,
        "origins": [origin_json(origin) for origin in found.origins],
    }


def commit_origins_json(found: CommitOrigins) -> Json:
    """Return where a commit comes from."""
    return {
        "commit": commit_json(found.commit),
        "files": found.files,
        "lines": found.lines,
        "origins": [origin_json(origin) for origin in found.origins],
    }


def origin_json(origin: Origin) -> Json:
    """Return an origin; `session` is null if none is known."""
    return {
        "session": session_json(origin.row) if origin.row is not None else None,
        "confidence": origin.confidence or None,
        "matched_lines": origin.matched,
        "compared_lines": origin.lines,
        "why_not": origin.why_not,
        "turn": msgspec.to_builtins(origin.reason) if origin.reason is not None else None,
        "resume": f"cortext resume {origin.row.id}" if origin.row is not None else "",
    }


def commit_json(commit: Commit | None) -> Json | None:
    """Return a commit; None for lines that are not committed."""
    if commit is None:
        return None
    date = clock.from_epoch(commit.time)
    return {"sha": commit.sha, "author": commit.author, "date": date, "subject": commit.subject}


def touch_json(touch: Touch) -> Json:
    """Return what a session did with a file."""
    fields = {"changed": touch.changed, "read": touch.read, "seq": touch.seq, "timestamp": touch.timestamp}
    return {"session": session_json(touch.row), **fields, "sure": touch.is_sure}
