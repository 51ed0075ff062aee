"""How many tokens fit into a model, by its name. An estimate from a list: used for trimming, never for refusing."""

from __future__ import annotations

DEFAULT = 128_000

# The first matching prefix decides, so longer ones come first.
_SIZES = (
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4-32k", 32_768),
    ("gpt-4", 8_192),
    ("gpt-3.5", 16_385),
    ("gpt-5", 272_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("claude", 200_000),
    ("gemini-1.5-pro", 2_097_152),
    ("gemini", 1_048_576),
    ("gemma2", 8_192),
    ("gemma", 128_000),
    ("llama3.1", 131_072),
    ("llama3.2", 131_072),
    ("llama3.3", 131_072),
    ("llama3", 8_192),
    ("llama2", 4_096),
    ("mistral", 32_768),
    ("mixtral", 32_768),
    ("qwen3", 40_960),
    ("qwen", 32_768),
    ("phi3", 128_000),
    ("deepseek", 128_000),
)


def context_of(name: str, default: int = DEFAULT) -> int:
    """Return the context size of a model by its own name (`gpt-4o-mini`, `library/llama3:8b`), without the provider."""
    own = name.rsplit("/", 1)[-1].lower()
    return next((size for beginning, size in _SIZES if own.startswith(beginning)), default)
