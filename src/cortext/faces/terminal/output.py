"""Answers of commands as JSON on standard output."""

from __future__ import annotations

import json


def print_json(value: object) -> None:
    """JSON on standard output; what UTF-8 cannot encode (half a surrogate pair) is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    print(text)
