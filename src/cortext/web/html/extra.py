"""Whether the libraries for HTML are installed: an optional dependency of `cortext web` and of the HTML export."""

from __future__ import annotations

from importlib.util import find_spec

from cortext.distribution import install_hint
from cortext.errors import ConfigError

EXTRA = "web"
_NEEDED = ("jinja2", "markdown_it", "nh3", "pygments")
_SERVER = ("starlette", "uvicorn")


def require(*, server: bool = False) -> None:
    """Raise ConfigError if one of them is missing."""
    missing = [name for name in (*_NEEDED, *(_SERVER if server else ())) if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"pages need libraries that are not installed: {', '.join(missing)}",
            kept="every other command works without them",
            hint=install_hint(EXTRA),
        )
