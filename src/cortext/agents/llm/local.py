"""Asking a server quickly which models it has, to choose one if none was named."""

from __future__ import annotations

import json

from cortext.io.http import opener

_SECONDS = 1.0
_LARGEST = 2_000_000
# Models that return vectors or sound, not text.
_NOT_FOR_CHAT = ("embed", "bge-", "minilm", "whisper", "tts", "rerank", "dall-e", "moderation", "image")


def first_model(url: str, key: str = "") -> str:
    """Return the first listed model that can chat; empty if the server does not answer."""
    names = [name for name in models(url, key) if not any(part in name.lower() for part in _NOT_FOR_CHAT)]
    return names[0] if names else ""


def models(url: str, key: str = "") -> list[str]:
    """Return the models listed at an address (`data` as OpenAI, `models` as Ollama); empty if it does not answer."""
    import http.client
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    try:
        request = Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
        with opener(url).open(request, timeout=_SECONDS) as answer:
            found = json.loads(answer.read(_LARGEST))
    except HTTPError as error:
        error.close()  # it holds the connection
        return []
    except (URLError, OSError, ValueError, http.client.HTTPException):
        return []
    listed = (found.get("data") or found.get("models")) if isinstance(found, dict) else None
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    names = [entry.get("id") or entry.get("name") for entry in entries]
    return [name for name in names if isinstance(name, str)]
