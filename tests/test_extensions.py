"""What hangs on the core is named in one list; other packages add to it, and a broken one never stops a command."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from cortext import extensions
from cortext.faces.cortext.main import COMMANDS, ROOM, commands
from cortext.tools import registry
from tests.project_lists import FILE, GROUPS, updated
from tests.support.cli import SCRIPTS, cortext, run

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads(FILE.read_text(encoding="utf-8"))

HELLO = '''
"""`cortext hello`."""
from argparse import ArgumentParser

def parser():
    made = ArgumentParser(prog="cortext hello", description="Greet.")
    made.add_argument("--loud", action="store_true", help="shout")
    return made

def run(arguments):
    print("HELLO" if parser().parse_args(arguments).loud else "hello")
    return 0
'''

LOUD = """
def export_one(found, options, kinds):
    print(found.session.title.upper())
"""


def install(site: Path, package: str, entry_points: str, module: str = "") -> None:
    """Create a package with entry points, as pip would install it."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    if module:
        (site / f"{package}.py").write_text(module)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder in which every command looks for packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def test_the_lists_of_the_project_are_those_in_the_code() -> None:
    project = FILE.read_text(encoding="utf-8")
    assert updated(project) == project, "write them: python -m tests.project_lists"
    assert PROJECT["project"]["entry-points"] == {group.name: dict(group.built_in) for group in GROUPS}
    assert project.count('  "cortext.tools.droid",\n') == 2


def test_a_new_adapter_is_written_into_the_three_lists_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = {**registry.TOOLS.built_in, "heron": "cortext.tools.heron.adapter:Heron"}
    monkeypatch.setattr(registry.TOOLS, "built_in", grown)
    text = updated(FILE.read_text(encoding="utf-8"))
    assert text.count("cortext.tools.heron") == 3
    assert 'heron = "cortext.tools.heron.adapter:Heron"' in text
    assert tomllib.loads(text)["tool"]["importlinter"]["contracts"]


def test_whatever_is_built_in_can_be_loaded() -> None:
    for group in GROUPS:
        for name in group.built_in:
            assert group.load(name) is not None, (group.name, name)


def test_the_contract_of_the_core_names_every_package_of_it() -> None:
    contracts = {
        contract["name"].partition(" (")[0]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]
    }
    core = next(contract for name, contract in contracts.items() if name.startswith("The core imports none"))
    packages = {
        path.stem
        for path in (ROOT / "src/cortext").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    data = {"__init__", "embedding", "ranking"}  # the public names, and data
    rooms = {name.removeprefix("cortext.") for name in core["forbidden_modules"]}
    assert {name.removeprefix("cortext.") for name in core["source_modules"]} == packages - rooms - data


def test_every_command_of_a_room_is_in_the_table_of_commands() -> None:
    assert {name for _, group in COMMANDS for name, module, _ in group if module == ROOM} == set(
        extensions.COMMANDS.built_in
    )
    assert all(commands().values())


def test_a_command_of_another_package_runs_and_is_shown(site: Path, home: Path) -> None:
    install(site, "cortext_hello", "[cortext.commands]\nhello = cortext_hello\n", HELLO)
    assert cortext("hello", "--loud").out == "HELLO\n"
    assert "Greet." in cortext("help", "hello").out
    assert "hello      from cortext_hello" in cortext("help", "--all").out
    assert cortext("complete-words", "hel").out.splitlines() == ["hello"]
    assert cortext("complete-words", "hello", "--l").out.splitlines() == ["--loud"]


def test_a_broken_command_of_another_package_says_which_package_to_uninstall(site: Path, home: Path) -> None:
    install(site, "cortext_gone", "[cortext.commands]\ngone = cortext_gone.command\nlist = cortext_gone.lists\n")
    failed = cortext("gone")
    assert failed.code == 7
    assert "the command 'gone' (cortext_gone.command) cannot be used: ModuleNotFoundError" in failed.err
    assert cortext("list", "--json").json == []
    assert "cortext_gone.lists" not in cortext("help", "--all").out


def test_a_format_of_another_package_is_offered_by_export(site: Path, home: Path) -> None:
    install(site, "cortext_loud", "[cortext.exports]\nloud = cortext_loud\n", LOUD)
    (home / "w").mkdir()
    assert cortext("init", cwd=home / "w").code == 0
    assert cortext("new", "brainstorm", "counting", "herons", cwd=home / "w").code == 0
    assert cortext("export", "herons", "--format", "loud", cwd=home / "w").out == "COUNTING HERONS\n"


def test_a_model_of_another_package_is_used_if_it_is_named(site: Path, home: Path) -> None:
    module = "LIBRARY, NEEDS = '', 'nothing'\n\ndef here():\n    return ''\n"
    install(site, "cortext_toy", "[cortext.models]\ntoy = cortext_toy\n", module)
    refused = run([str(SCRIPTS / "aur"), "spawn", "hello"], env={"CORTEXT_MODEL": "toy"})
    assert refused.code == 8
    assert "no toy model is usable here" in refused.err


def test_a_store_of_another_package_is_opened_by_the_scheme_of_its_address(site: Path, home: Path) -> None:
    module = """
from cortext.errors import StoreUnreachable

def open_store(address, kind, settings, lock_timeout):
    raise StoreUnreachable(f"nobody answers for {kind}")
"""
    install(site, "cortext_toy", "[cortext.stores]\ntoy = cortext_toy:open_store\n", module)
    refused = cortext("list", env={"CORTEXT_STORE": "toy://someone:secret@shed/sessions"})
    assert "nobody answers for home" in refused.err and "secret" not in refused.err
    unknown = cortext("list", env={"CORTEXT_STORE": "tay://someone@shed/sessions"})
    assert unknown.code == 7 and "neither the address" in unknown.err
