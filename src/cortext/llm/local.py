"""What a server says that it has, asked in a moment: to choose a model where none was named."""

from __future__ import annotations

import json

from cortext.llm.connection import opener

_SECONDS = 1.0
_LARGEST = 2_000_000
# Models that answer with vectors or sounds, not with words.
_NOT_FOR_TALK = ("embed", "bge-", "minilm", "whisper", "tts", "rerank", "dall-e", "moderation", "image")


def first_model(url: str, key: str = "") -> str:
    """The first model for talk that is listed there; empty if nobody answers."""
    names = [name for name in models(url, key) if not any(sign in name.lower() for sign in _NOT_FOR_TALK)]
    return names[0] if names else ""


def models(url: str, key: str = "") -> list[str]:
    """The models listed at an address: `data` of OpenAI's kind, `models` of Ollama's. None if nobody answers."""
    import http.client
    from urllib.error import URLError
    from urllib.request import Request

    try:
        request = Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
        with opener(url).open(request, timeout=_SECONDS) as answer:
            found = json.loads(answer.read(_LARGEST))
    except (URLError, OSError, ValueError, http.client.HTTPException):
        return []
    listed = (found.get("data") or found.get("models")) if isinstance(found, dict) else None
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    names = [entry.get("id") or entry.get("name") for entry in entries]
    return [name for name in names if isinstance(name, str)]
