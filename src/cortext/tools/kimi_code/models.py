"""The model that a session of Kimi Code is bound to, and those that the user has configured.

Kimi Code opens a session whose model is gone from the settings, and then fails at the first turn.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from cortext.errors import CortextError
from cortext.io import durable
from cortext.tools.kimi_code.install import CONFIG
from cortext.tools.shared.installer import parse_toml

_BOUND = re.compile(rb'\{"type":"(?:profile\.bind|config\.update)",.*?"modelAlias":"([^"\\]+)"')
_OF_ENVIRONMENT = "__kimi_env_model__"  # its name of the model in the variable


def model_of(path: str) -> str:
    """Return the model that a log names last; empty if it names none: then the current one is used."""
    last = b""
    try:
        with open(path, "rb", opener=durable.plain_file) as file:
            for line in file:
                found = _BOUND.match(line, 0, 4096)
                last = found[1] if found is not None else last
    except OSError:
        return ""
    return last.decode("utf-8", "replace")


def configured_models(home: str, environ: Mapping[str, str]) -> set[str]:
    """Return the names of the configured models; empty if there are none, or if the settings are unreadable."""
    try:
        models = parse_toml(CONFIG, durable.read_text(os.path.join(home, CONFIG))).get("models")
    except FileNotFoundError:
        models = {}
    except (CortextError, OSError, ValueError):  # Kimi Code reports it
        return set()
    of_environment = {_OF_ENVIRONMENT} if environ.get("KIMI_MODEL_NAME") else set()
    return of_environment | (set(models) if isinstance(models, dict) else set())
