"""Completion in a real zsh and a real fish: what Tab offers."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cortext.faces.cortext.main import COMMANDS
from cortext.tools.registry import BUILT_IN
from tests.support import shells
from tests.support.cli import SCRIPTS, cortext, run
from tests.support.screen import Screen
from tests.support.waiting import wait_until

NAMES = [name for _, commands in COMMANDS for name, _, _ in commands]
TYPES = ["brainstorm", "debug", "learn", "meeting", "plan", "review"]
TENS = [
    "010-brainstorm-naming-the-replay-tool",
    "011-learn-idempotenz-auf-deutsch",
    "012-plan-billing-out-of-monolith",
]

# What is typed, and what is offered.
OFFERED = {
    "cortext re": ["repair", "rescue", "restore", "resume"],
    "cortext show 01": TENS,
    "cortext new ": TYPES,
    "cortext list --s": ["--sort", "--starred", "--status"],
    "cortext list --status ": ["active", "completed", "damaged", "idle", "interrupted", "paused"],
    "cortext resume --ai ": sorted(BUILT_IN),
    "cortext resume --type ": TYPES,
    "cortext stop --json 01": TENS,
    "cortext completion ": ["bash", "fish", "zsh"],
    "cortext import my-": ["my-folder/", "my-note"],  # nothing of ours to offer: file names
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a workspace with twelve conversations, a file and a folder."""
    folder = tmp_path_factory.mktemp("shells")
    done = cortext("demo", "demo", "--quiet", cwd=folder, env=_home(folder))
    assert done.code == 0, done.err
    (folder / "demo" / "my-note").write_text("", encoding="utf-8")
    (folder / "demo" / "my-folder").mkdir()
    return folder / "demo"


def _home(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), **dict.fromkeys(("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), "")}


@pytest.fixture(scope="module")
def shell_of() -> Callable[[str], shells.Shell]:
    """Return a function that gives a real shell by name, or skips the test with the reason."""
    there: dict[str, shells.Shell | str] = {}

    def get(name: str) -> shells.Shell:
        if name not in there:
            try:
                there[name] = shells.ensure(name)
            except shells.NotToBeHad as error:
                there[name] = str(error)
        found = there[name]
        return found if isinstance(found, shells.Shell) else pytest.skip(found)

    return get


# ── fish ─────────────────────────────────────────────────────────────────────────────────────────────


def _fish(fish: shells.Shell, folder: Path, line: str) -> list[str]:
    """Return what a real fish offers after this line."""
    script = f"cortext completion fish | source\ncomplete -C '{line}'"
    env = {**_home(folder.parent), "LD_LIBRARY_PATH": fish.libraries}
    done = run([str(fish.program), "--private", "--no-config", "-c", script], cwd=folder, env=env)
    assert done.code == 0 and not done.err, done.err
    return sorted(offered.split("\t")[0] for offered in done.out.splitlines())


@pytest.mark.req("LOOK-03")
@pytest.mark.parametrize("line", OFFERED)
def test_fish_completes(line: str, demo: Path, shell_of: Callable[[str], shells.Shell]) -> None:
    assert _fish(shell_of("fish"), demo, line) == OFFERED[line]


@pytest.mark.req("LOOK-03")
def test_fish_completes_every_command(demo: Path, shell_of: Callable[[str], shells.Shell]) -> None:
    assert _fish(shell_of("fish"), demo, "cortext ") == sorted(NAMES)


# ── zsh ──────────────────────────────────────────────────────────────────────────────────────────────

PROMPT = "ready>"
EVALUATED = 'autoload -Uz compinit\ncompinit -u -D\neval "$(cortext completion zsh)"\n'
FROM_A_FILE = "fpath=($ZDOTDIR/functions $fpath)\nautoload -Uz compinit\ncompinit -u -D\n"


class Zsh:
    """A real zsh at a terminal."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        screen.wait_for(PROMPT)

    def complete(self, line: str, wanted: list[str]) -> str:
        """Type the line and press Tab until exactly these words are offered; return the line."""
        self._tab(line)
        return self._wait_until(lambda shown: sorted(" ".join(shown.splitlines()[1:]).split()) == wanted).splitlines()[
            0
        ]

    def finish(self, line: str, wanted: str) -> None:
        """Type the line and press Tab until it is completed to this, with no other offer."""
        self._tab(line)
        self._wait_until(lambda shown: shown == f"{PROMPT} {wanted}")

    def _tab(self, line: str) -> None:
        self.screen.press("C-u", "C-l")
        self._wait_until(lambda shown: shown == PROMPT)
        self.screen.type(line)
        self._wait_until(lambda shown: shown == f"{PROMPT} {line}".rstrip())
        self.screen.press("Tab")

    def _wait_until(self, holds: Callable[[str], bool]) -> str:
        shown = ""

        def is_shown() -> bool:
            nonlocal shown
            shown = self.screen.text().rstrip()
            shown = shown[shown.rfind(PROMPT) :]
            return holds(shown)

        wait_until(is_shown, 30, lambda: f"this is on the screen:\n{shown}")
        return shown


@pytest.fixture(scope="module", params=[EVALUATED, FROM_A_FILE], ids=["evaluated", "from a file"])
def zsh(
    request: pytest.FixtureRequest,
    demo: Path,
    shell_of: Callable[[str], shells.Shell],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Zsh]:
    """Start one zsh for all lines, with completion set up in one of the two usual ways."""
    shell = shell_of("zsh")
    folder = tmp_path_factory.mktemp("zsh")
    (folder / ".zshenv").write_text(shell.zshenv(), encoding="utf-8")
    (folder / ".zshrc").write_text(f"PS1='{PROMPT} '\nsetopt no_beep\n{request.param}", encoding="utf-8")
    (folder / "functions").mkdir()
    script = cortext("completion", "zsh", cwd=demo).out
    (folder / "functions" / "_cortext").write_text(script, encoding="utf-8")
    env = {
        **_home(demo.parent),
        "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "ZDOTDIR": str(folder),
        "LD_LIBRARY_PATH": shell.libraries,
    }
    with Screen(folder, [str(shell.program), "-d", "-i"], env, demo) as screen:
        yield Zsh(screen)


@pytest.mark.req("LOOK-03")
@pytest.mark.parametrize("line", OFFERED)
def test_zsh_completes(line: str, zsh: Zsh) -> None:
    begun = zsh.complete(line, OFFERED[line])
    assert begun.startswith(f"{PROMPT} {line}".rstrip())


@pytest.mark.req("LOOK-03")
def test_zsh_completes_every_command(zsh: Zsh) -> None:
    zsh.complete("cortext ", sorted(NAMES))


@pytest.mark.req("LOOK-03")
def test_zsh_inserts_a_single_match(zsh: Zsh) -> None:
    zsh.finish("cortext show 012", f"cortext show {TENS[2]}")
    zsh.finish("cortext uni", "cortext uninstall")


# ── installation ───────────────────────────────────────────────────────────────────────────────


def test_an_installed_shell_is_never_used(shell_of: Callable[[str], shells.Shell]) -> None:
    for name in shells.PACKAGES:
        program = shell_of(name).program
        assert program is not None and shells.shells_folder() in program.parents
        assert re.search(r"\d+\.\d+", shells.version(name))


def test_a_failed_download_reports_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shells, "shells_folder", lambda: tmp_path / "shells")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(shells.NotToBeHad, match="with apt-get and dpkg-deb"):
        shells.ensure("zsh")
    for name in ("apt-get", "dpkg-deb"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'Err: http://x.invalid/ no route'\nexit 100\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(shells.NotToBeHad, match="is Debian's archive reachable") as caught:
        shells.ensure("zsh")
    assert "x.invalid" not in str(caught.value)
    assert [path.name for path in (tmp_path / "shells").iterdir()] == [".zsh.lock"]
    shutil.rmtree(tmp_path / "shells")
