"""Other models that read meaning: an endpoint that speaks OpenAI's /embeddings, or sentence-transformers.

Both are a setting, slower than the built-in table, and never waited for by a query: until they have read everything,
the vectors of the model before answer.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from cortext.errors import ConfigError, ModelBusy, ModelRefused, ModelUnreachable, install_hint
from cortext.index.search.arrays import np
from cortext.index.search.embed import Vectors
from cortext.llm.connection import opener
from cortext.safety.secrets.masking import mask

LOT = 64  # texts of one request
LONGEST = 8_000  # characters of a text that is sent
TIMEOUT = 60.0


class EndpointModel:
    """A model behind `POST …/embeddings`; the key is that of OPENAI_API_KEY."""

    quick = False

    def __init__(self, name: str, model: str, address: str) -> None:
        self.name, self._model = name, model
        base = address or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        self._address = base.rstrip("/") + "/embeddings"
        self.dimension = 0  # as the first answer says

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A vector a text, in requests of a few dozen."""
        parts = [self._ask(texts[start : start + LOT]) for start in range(0, len(texts), LOT)]
        vectors: Vectors = np.concatenate(parts)
        self.dimension = vectors.shape[1]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths == 0, 1.0, lengths), dtype=np.float32)

    def _ask(self, texts: Sequence[str]) -> Vectors:
        # Secrets stay here. An empty text is refused by most; a blank one is not, and is as far from everything.
        said = [mask(text[:LONGEST]).text.strip() or " " for text in texts]
        body = {"model": self._model, "input": said}
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
            kind = ModelBusy if error.code in (429, 500, 502, 503, 529) else ModelRefused
            hint = "check search.model and the key"
            if 300 <= error.code < 400:
                hint = "it sends elsewhere, and a key does not follow: set search.address to where it really is"
            raise kind(f"the model for search answered {error.code}", kept=_KEPT, hint=hint) from error
        except (urllib.error.URLError, OSError) as error:
            raise ModelUnreachable(
                f"no answer from {self._address}: {error}",
                kept=_KEPT,
                hint="check search.address, or set search.model to built-in",
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise ModelRefused(f"{self._address} does not answer as an embeddings endpoint", kept=_KEPT) from error
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ModelRefused(f"{self._address} answered with another number of vectors than asked", kept=_KEPT)
        return vectors


_KEPT = "the index as it is; keywords go on working"


class TransformerModel:
    """A model of the sentence-transformers library."""

    quick = False

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
        except (OSError, ValueError, RuntimeError) as error:  # no such model, no way to it, or not one of this library
            raise ConfigError(
                f"search.model = {name!r} could not be loaded: {str(error).splitlines()[0][:200]}",
                kept=_KEPT,
                hint="the name is one of a model on the library's hub, or a folder",
            ) from error
        self.dimension = int(self._encode(["a"]).shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A vector a text."""
        return self._encode(list(texts)) if texts else np.zeros((0, self.dimension), np.float32)

    def _encode(self, texts: list[str]) -> Vectors:
        found = self._model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32)
