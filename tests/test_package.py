"""The package as a user gets it: built, installed in a clean environment, and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import venv
import zipfile
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path
from typing import ClassVar

import pytest
from bench import install_size
from packaging.requirements import Requirement

from cortext import __version__, distribution
from cortext.errors import ConfigError
from cortext.services.cost.prices import PriceSource
from cortext.testing.table import every_row
from cortext.tools.claude_code.adapter import ClaudeCode
from tests.support import release

REPOSITORY = release.REPOSITORY


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return release.build(tmp_path_factory.mktemp("dist"))


def _needed(requirement: Requirement, seen: set[str]) -> Iterator[metadata.Distribution]:
    """Yield the distribution that satisfies a requirement, and its own dependencies."""
    extras = requirement.extras or {""}
    key = f"{requirement.name.lower()}[{','.join(sorted(extras))}]"
    if key in seen:
        return
    seen.add(key)
    found = metadata.distribution(requirement.name)
    yield found
    for text in found.requires or []:
        needed = Requirement(text)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
            needed.marker = None
            yield from _needed(needed, seen)


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an environment with the wheel and exactly its declared dependencies, linked from ours: no network."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    site = next((folder / "lib").glob("python*")) / "site-packages"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", str(built[1])],
        check=True,
        capture_output=True,
        timeout=120,
    )
    for text in release.project()["dependencies"]:
        for needed in _needed(Requirement(text), set()):
            for file in needed.files or []:
                top = Path(file.parts[0])
                if top.name not in ("..", "__pycache__") and not (site / top).exists():
                    (site / top).symlink_to(Path(str(needed.locate_file(top))))
    return folder / "bin"


def _run(installed: Path, folder: Path, *words: str) -> str:
    """Return the output of a command that runs with the parent folder as its HOME."""
    environ = {"PATH": f"{installed}:{os.environ['PATH']}", "HOME": str(folder.parent), "LANG": "C.UTF-8"}
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.req("LIB-04")
def test_the_wheel_works_in_a_clean_environment(installed: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for command in ("cortext", "aur", "alfred"):
        assert _run(installed, here, command, "--version").split()[-1] == __version__
    _run(installed, here, "cortext", "demo", "--quiet", "../there")
    found = _run(installed, tmp_path / "there", "cortext", "search", "tablets", "thrown", "out")
    assert "tablet" in found.lower()


@pytest.mark.req("LIB-04")
def test_the_base_install_offers_the_mcp_server_and_keeps_an_entry_that_is_there(
    built: tuple[Path, Path], installed: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    shared = folder / ".mcp.json"
    said = _run(installed, folder, "cortext", "init", "--ai", "claude,codex")
    wheel = f"-m pip install '{built[1]}[mcp]'"  # where it was installed from
    assert wheel in said
    assert not shared.exists() and not (folder / ".codex" / "config.toml").exists()
    assert "cortext" in (folder / ".claude" / "settings.json").read_text(encoding="utf-8")  # the hooks

    # A colleague who has the extra committed the entry: it stays, and doctor says why it does not work here.
    ClaudeCode().install_settings(str(folder), ["cortext"])
    committed = shared.read_text(encoding="utf-8")
    _run(installed, folder, "cortext", "upgrade")
    assert shared.read_text(encoding="utf-8") == committed
    claude = installed / "claude"  # only what makes it count as installed
    claude.write_text("#!/bin/sh\necho '2.1.0 (Claude Code)'\n", encoding="utf-8")
    claude.chmod(0o755)
    report = _run(installed, folder, "cortext", "doctor")
    claude.unlink()
    assert "the MCP SDK is not installed" in report and wheel in report

    environ = {"PATH": f"{installed}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    refused = subprocess.run(
        ["cortext", "mcp"], cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == ConfigError.exit_status
    assert wheel in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.req("LIB-04")
def test_the_wheel_contains_everything_under_src_and_nothing_else(built: tuple[Path, Path]) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "src"], cwd=REPOSITORY, check=True, capture_output=True, text=True, timeout=60
    ).stdout.splitlines()
    with zipfile.ZipFile(built[1]) as wheel:
        contents = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert contents == {str(Path(name).relative_to("src")) for name in tracked if (REPOSITORY / name).exists()}


@pytest.mark.req("LIB-04")
def test_the_sdist_contains_what_is_needed_to_build_and_check_it(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as sdist:
        contents = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "NOTICE", "bin/check", "tests/requirements.py"} <= contents
    assert not any(name.startswith((".venv/", ".cache/", "dist/", "build/")) for name in contents)


@pytest.mark.req("LIB-04")
def test_the_distribution_has_one_name() -> None:
    project = release.project()
    extras = {name: value for name, value in project["optional-dependencies"].items() if name != "all"}
    lean = ",".join(sorted(set(extras) - {"sentence-transformers"}))
    (everything,) = (Requirement(text) for text in project["optional-dependencies"]["all"])
    assert project["name"] == everything.name == distribution.NAME
    assert ",".join(sorted(everything.extras)) == lean  # without the one that brings gigabytes


@pytest.mark.req("LIB-04")
def test_the_command_of_the_readme_installs_extras_that_exist() -> None:
    option, source = install_size.readme_command()
    assert option == "--no-compile" and Requirement(f"x{source.removeprefix('.')}").extras <= set(
        release.project()["optional-dependencies"]
    )


@pytest.mark.req("LIB-04")
def test_no_document_tells_to_install_from_the_index_before_there_is_a_release() -> None:
    """Nor ever one of the names that are another project's."""
    by_name = re.compile(r"(?:pip|pipx|uv tool|uv pip)\s+install\s+(?:-\S+\s+)*[\"']?cortext[-\w]*")
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, check=True, capture_output=True, text=True, timeout=60
    ).stdout.splitlines()
    wrong = []
    for name in tracked:
        path = REPOSITORY / name
        if path.is_file() and "tests" not in path.parts and path.suffix in (".md", ".py", ".toml", ".yml", ".js", ""):
            text = path.read_text(encoding="utf-8", errors="replace")
            wrong += [f"{name}: {found}" for found in by_name.findall(text)]
    assert wrong == []
    assert by_name.search("pip install 'cortext[models]'") and by_name.search("pipx install --force cortext-cli")


class _Index(BaseHTTPRequestHandler):
    """An index as pip asks it: pages in JSON or HTML, metadata beside a file or only inside it."""

    files: ClassVar[dict[str, tuple[str, bytes]]] = {}

    def do_GET(self) -> None:
        kind, body = self.files.get(self.path, ("", b""))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, tuple[str, bytes]]]:
    server = HTTPServer(("127.0.0.1", 0), _Index)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    monkeypatch.setattr(_Index, "files", {})
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield _Index.files
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.req("LIB-04")
def test_a_release_is_refused_under_a_name_of_others(index: dict[str, tuple[str, bytes]]) -> None:
    urls = {"Source": "https://cortext.example/source"}

    def refused(name: str) -> list[str]:
        return release.not_ours(release.owner(release.index(), name), name, urls)

    assert refused("free") == []
    other = b"Metadata-Version: 2.1\nName: taken\nVersion: 2.0\nSummary: Herons\n\n"
    files = [{"filename": "taken-2.0.whl", "url": "/f/taken-2.0.whl", "upload-time": "2026-02-01", "yanked": False},
             {"filename": "taken-1.0.whl", "url": "/f/taken-1.0.whl", "upload-time": "2026-01-01"}]  # fmt: skip
    index["/simple/taken/"] = "application/vnd.pypi.simple.v1+json", json.dumps({"files": files}).encode()
    index["/f/taken-2.0.whl.metadata"] = "application/octet-stream", other
    assert refused("taken") == [
        "the name taken on the index belongs to another project (taken 2.0: Herons): take another one"
    ]
    index["/f/taken-2.0.whl.metadata"] = "x/y", other.rstrip() + b"\nProject-URL: S, https://cortext.example/source\n\n"
    assert refused("taken") == []
    index["/simple/reserved/"] = "application/json", b'{"files": []}'
    assert "no file" in refused("reserved")[0]


@pytest.mark.req("LIB-04")
def test_the_owner_of_a_name_is_read_from_a_page_in_html(
    built: tuple[Path, Path], index: dict[str, tuple[str, bytes]]
) -> None:
    """With the metadata only inside the newest file, which needs a newer Python."""
    for file in built:
        page = f'<a href="/f/old.whl">old.whl</a><a data-requires-python="&gt;=4" href="../../f/{file.name}#x">new</a>'
        index["/simple/cortext-sessions/"] = "text/html; charset=utf-8", page.encode()
        index[f"/f/{file.name}"] = "application/octet-stream", file.read_bytes()
        found = release.owner(release.index(), distribution.NAME)
        assert found is not None and found["Name"] == distribution.NAME
        assert release.not_ours(found, distribution.NAME, release.project()["urls"]) == []


@pytest.mark.req("LIB-04")
@every_row(
    ("listed", "expected"),
    [
        ("global.timeout='60'\nglobal.extra-index-url='a\\nb'\n", ""),
        ("global.index-url='https://all'\n", "https://all"),
        ("global.index-url='https://all'\ninstall.index-url='https://in=stall'\n", "https://in=stall"),
        ("install.index-url='https://install'\n:env:.index-url='https://env'\n", "https://env"),
        ("install.index-url='https://install'\n:env:.index-url=''\n", "https://install"),
        (":env:.pypi-url='https://env'\nglobal.index-url='https://all'\n", "https://env"),
        ("download.index-url='https://download'\nglobal.index-url='https://all'\n", "https://all"),
        ("download.index-url='https://download'\n", "https://download"),
    ],
)
def test_the_index_is_the_one_that_pip_install_asks(listed: str, expected: str) -> None:
    assert release.configured_index(listed) == expected


@pytest.mark.req("LIB-04")
def test_the_index_of_the_install_section_is_read_from_the_file_of_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://all\n[install]\nindex_url = https://install\n")
    assert release.index() == "https://install"
    (tmp_path / "pip.conf").write_text("index-url = https://no-section\n")
    with pytest.raises(OSError, match=r"cannot read its configuration"):
        release.index()


@pytest.mark.req("LIB-04")
def test_a_release_is_refused_with_old_prices() -> None:
    old, new = (
        PriceSource(vendor, f"https://{vendor}.example", day, "")
        for vendor, day in (("a", "2026-08-08"), ("b", "2026-11-05"))
    )
    assert release.old_prices([old, new], date(2026, 11, 17)) == [
        "the prices of a are of 2026-08-08: compare them with https://a.example"
    ]
    assert release.old_prices([old, new], date(2026, 9, 1)) == []


@pytest.mark.req("LIB-04")
def test_a_release_is_refused_until_changelog_and_urls_are_ready() -> None:
    ready = "# Changelog\n\n## Unreleased\n\n## 1.2.0 (2026-11-17)\n"
    urls = {"Homepage": "https://cortext.dev/"}
    assert release.problems("1.2.0", ready, urls) == []
    assert release.problems("1.3.0", ready, urls) == ["CHANGELOG.md has no section '1.3.0 (YYYY-MM-DD)'"]
    assert release.problems("1.2", "## Unreleased\n## 1.2 (2026-11-17)\n", urls) == ["the version '1.2' is not X.Y.Z"]
    assert release.problems("1.2.0", ready.replace("## Unreleased\n", ""), urls) == [
        "CHANGELOG.md does not begin with an Unreleased section"
    ]
    assert release.problems("1.2.0", ready, {"Homepage": "https://cortext.example/"}) == [
        "[project.urls] Homepage is a placeholder: https://cortext.example/"
    ]


@pytest.mark.req("LIB-04")
def test_the_project_files_have_what_a_release_needs() -> None:
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(release.project()["urls"])
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "CHANGELOG.md does not begin with an Unreleased section" not in release.problems("1.0.0", changelog, {})
