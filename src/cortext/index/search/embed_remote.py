"""Other embedding models: an OpenAI-compatible /embeddings endpoint, or sentence-transformers.

Both are chosen by a setting and are slower than the built-in table. A query never waits for them: until they have
embedded everything, the vectors of the previous model are used.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from cortext.distribution import install_hint
from cortext.errors import ConfigError, ModelBusy, ModelRefused, ModelUnreachable
from cortext.index.search.arrays import np
from cortext.index.search.embed import Vectors
from cortext.io.http import opener
from cortext.safety.secrets.masking import mask

BATCH = 64  # texts per request
LONGEST = 8_000  # characters of a text that are sent
TIMEOUT = 60.0


class EndpointModel:
    """A model behind `POST …/embeddings`, authenticated with OPENAI_API_KEY."""

    quick = False
    near = 0.1
    far = 0.25
    sure = 0.45

    def __init__(self, name: str, model: str, address: str) -> None:
        self.name, self._model = name, model
        base = address or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        self._address = base.rstrip("/") + "/embeddings"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text, in batched requests."""
        parts = [self._ask(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
        vectors: Vectors = np.concatenate(parts)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths == 0, 1.0, lengths), dtype=np.float32)

    def _ask(self, texts: Sequence[str]) -> Vectors:
        # Mask secrets before anything is sent. Most endpoints reject an empty text but accept a blank one.
        inputs = [mask(text[:LONGEST]).text.strip() or " " for text in texts]
        body = {"model": self._model, "input": inputs}
        request = urllib.request.Request(
            self._address,
            data=json.dumps(body).encode("utf-8", "replace"),
            headers={
                "Content-Type": "application/json",
                "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}",
            },
        )
        try:
            with opener(self._address).open(request, timeout=TIMEOUT) as answer:
                data: list[dict[str, Any]] = json.load(answer)["data"]
            rows = [item["embedding"] for item in sorted(data, key=lambda item: item["index"])]
            vectors = np.array(rows, dtype=np.float32)
        except urllib.error.HTTPError as error:
            error.close()  # it holds the connection
            kind = ModelBusy if error.code in (429, 500, 502, 503, 529) else ModelRefused
            hint = "check search.model and the API key"
            if 300 <= error.code < 400:
                hint = "it redirects, and the API key is not sent along: set search.address to the final address"
            raise kind(f"the embedding endpoint answered {error.code}", kept=_KEPT, hint=hint) from error
        except (urllib.error.URLError, OSError) as error:
            raise ModelUnreachable(
                f"no answer from {self._address}: {error}",
                kept=_KEPT,
                hint="check search.address, or set search.model to built-in",
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise ModelRefused(f"{self._address} is not an embeddings endpoint", kept=_KEPT) from error
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ModelRefused(f"{self._address} returned a different number of vectors than requested", kept=_KEPT)
        return vectors


_KEPT = "the index as it is; keyword search still works"


class TransformerModel:
    """A model of the sentence-transformers library."""

    quick = False
    near = 0.1
    far = 0.25
    sure = 0.45

    def __init__(self, name: str, model: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise ConfigError(
                f"search.model = {name!r} needs sentence-transformers",
                kept=_KEPT,
                hint=f"{install_hint('sentence-transformers')}, or set search.model to built-in",
            ) from error
        self.name = name
        try:
            self._model: Any = SentenceTransformer(model)
        except (OSError, ValueError, RuntimeError) as error:  # unknown, unreachable, or not a model of this library
            raise ConfigError(
                f"search.model = {name!r} could not be loaded: {str(error).splitlines()[0][:200]}",
                kept=_KEPT,
                hint="use the name of a model on the Hugging Face hub, or a folder",
            ) from error
        self.dimension = int(self._encode(["a"]).shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text."""
        return self._encode(list(texts)) if texts else np.zeros((0, self.dimension), np.float32)

    def _encode(self, texts: list[str]) -> Vectors:
        found = self._model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32)
