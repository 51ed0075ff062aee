"""Runs docs/adding-a-tool.md: creates its files, installs them as a package, runs its tests and its commands."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.cli import cortext, run

PAGE = (Path(__file__).parents[1] / "docs" / "adding-a-tool.md").read_text(encoding="utf-8")
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
BLOCKS = [(found[1], found[2] or "", found[3]) for found in BLOCK.finditer(PAGE)]


def commands_in(text: str) -> list[tuple[list[str], list[str]]]:
    """Return the commands of a block, each with lines that its output must contain."""
    commands: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:].split(), []))
        else:
            commands[-1][1].append(line)
    return commands


@pytest.fixture
def package(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the files of the page and install the package where every command finds it."""
    folder = tmp_path / "package"
    folder.mkdir()
    for _, title, text in BLOCKS:
        if title.startswith("~/"):
            path = home / title[2:]
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
        elif title.endswith((".py", ".toml")):
            (folder / title).write_text(text, encoding="utf-8")
    site = tmp_path / "site"
    offline = ("--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
    installed = run([sys.executable, "-m", "pip", "install", *offline, "--target", str(site), str(folder)])
    assert installed.code == 0, installed.err
    monkeypatch.setenv("PYTHONPATH", str(site))
    return folder


@pytest.mark.req("LIB-02")
def test_the_package_passes_the_suite(package: Path) -> None:
    done = run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_toychat.py"], cwd=package, patience=300
    )

    assert done.code == 0, done.out
    assert int(re.findall(r"(\d+) passed", done.out)[0]) >= 18


@pytest.mark.req("LIB-02")
def test_the_dependency_is_met_by_a_checkout_without_an_index(package: Path) -> None:
    """In the order of the page: the checkout, which is installed here, then the package."""
    (shell,) = (text for kind, _, text in BLOCKS if kind == "sh")
    assert shell.index("-e ../cortext\n") < shell.index("-e .\n")
    offline = ("--no-build-isolation", "--no-index", "--disable-pip-version-check")
    done = run([sys.executable, "-m", "pip", "install", "--dry-run", *offline, str(package)])
    assert done.code == 0, done.err
    assert re.findall(r"Would install (.*)", done.out) == ["cortext-toychat-1.0"]


@pytest.mark.req("LIB-02")
def test_every_command_prints_what_the_page_shows(package: Path, tmp_path: Path) -> None:
    count = 0
    for kind, title, text in BLOCKS:
        for command, expected in commands_in(text) if kind == "console" else ():
            assert command[0] == "cortext"
            done = cortext(*command[1:], cwd=tmp_path)
            assert (done.code == 0) is (title != "refused"), (command, done.err)
            for line in expected:
                assert line in done.out + done.err, command
            count += 1
    assert count == 7


@pytest.mark.req("LIB-02")
def test_a_read_only_adapter_is_short() -> None:
    (adapter,) = (text for _, title, text in BLOCKS if title == "cortext_toychat.py")
    assert len(adapter.splitlines()) < 80
