"""How to add an extra is said as it works for this installation."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

from cortext.distribution import NAME, install_command

pytestmark = pytest.mark.req("LIB-04")
CHECKOUT = {"url": "file:///home/ada/cor%20text", "dir_info": {}}
EDITABLE = {**CHECKOUT, "dir_info": {"editable": True}}
WHEEL = {"url": "file:///tmp/cortext_sessions-1.0-py3-none-any.whl", "archive_info": {}}
GIT = {"url": "https://cortext.example/source", "vcs_info": {"vcs": "git", "commit_id": "0"}}
INDEX: dict[str, object] = {}


class _Ours(metadata.Distribution):
    def __init__(self, origin: dict[str, object], installer: str) -> None:
        self._files = {
            "METADATA": f"Name: {NAME}\nVersion: 1.0\n"
            'Requires-Dist: here\nRequires-Dist: here>=2; extra == "mcp"\n'
            'Requires-Dist: gone; extra == "web"\nRequires-Dist: here[x]>=2; extra == "web"\n'
            f"Requires-Dist: {NAME}[mcp,web]; extra == 'all'\n",
            "INSTALLER": f"{installer}\n",
            **({"direct_url.json": json.dumps(origin)} if origin else {}),
        }

    def read_text(self, filename: str) -> str | None:
        return self._files.get(filename)

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


@pytest.mark.parametrize(
    ("origin", "made_by", "active", "expected"),
    [
        (INDEX, "pip", True, f"pip install '{NAME}[web]'"),
        (INDEX, "pip", False, f"/env/bin/python -m pip install '{NAME}[web]'"),
        (INDEX, "uv", True, f"uv pip install '{NAME}[web]'"),
        (INDEX, "uv", False, f"uv pip install --python /env/bin/python '{NAME}[web]'"),
        (INDEX, "uv tool", False, f"uv tool install '{NAME}[mcp,web]'"),
        (INDEX, "pipx", False, f"pipx install --force '{NAME}[mcp,web]'"),
        (CHECKOUT, "pip", True, "pip install '/home/ada/cor text[web]'"),
        (EDITABLE, "pip", True, "pip install --editable '/home/ada/cor text[web]'"),
        (EDITABLE, "uv tool", False, "uv tool install --editable '/home/ada/cor text[mcp,web]'"),
        (EDITABLE, "pipx", False, "pipx install --force --editable '/home/ada/cor text[mcp,web]'"),
        (WHEEL, "pipx", False, "pipx install --force '/tmp/cortext_sessions-1.0-py3-none-any.whl[mcp,web]'"),
        (GIT, "pip", True, f"pip install '{NAME}[web] @ git+https://cortext.example/source'"),
    ],
)
def test_the_hint_fits_the_installation(
    origin: dict[str, object], made_by: str, active: bool, expected: str, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    ours = _Ours(origin, made_by.removesuffix(" tool"))

    def known(name: str) -> metadata.Distribution:
        if name == "gone":
            raise metadata.PackageNotFoundError
        return ours

    monkeypatch.setattr("cortext.distribution.metadata.distribution", known)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/env/bin/python")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path) if active else "/elsewhere")
    if made_by in ("uv tool", "pipx"):
        (tmp_path / ("uv-receipt.toml" if made_by == "uv tool" else "pipx_metadata.json")).touch()
    assert install_command("web") == expected


def test_a_checkout_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("cortext.distribution.metadata.distribution", unknown)
    folder = Path(__file__).resolve().parents[1]
    assert install_command("web").endswith(f" --editable '{folder}[web]'")
