"""A workspace whose settings file cannot be used: everything can be read, nothing can be changed, and it is said."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cortext.config.load import LARGEST_FILE, load
from cortext.errors import ConfigError
from tests.faces.pond import Pond, make_pond
from tests.faces.pond import served as mcp
from tests.support.cli import SCRIPTS, Ran, git, run
from tests.web.served import serving

pytestmark = pytest.mark.req("SAFE-10", "FLOW-08")

WALK = "003-brainstorm-long-walk"
RULE = "the defaults are used for reading"

READS = (
    ("cortext",),
    ("cortext", "list"),
    ("cortext", "list", "--json"),
    ("cortext", "show", "003"),
    ("cortext", "search", "herons"),
    ("cortext", "similar", "003"),
    ("cortext", "export", "003"),
    ("cortext", "resume", "--print", "003"),
    ("cortext", "resume", "--dry-run", "003"),
    ("cortext", "stats"),
    ("cortext", "cost"),
    ("cortext", "tools"),
    ("cortext", "index", "status"),
    ("cortext", "restore"),
    ("cortext", "tag"),
    ("cortext", "tag", "003"),
    ("cortext", "tag", "003", "far", "--dry-run"),
    ("cortext", "note", "001"),
    ("cortext", "title", "003"),
    ("cortext", "type", "list"),
    ("cortext", "store", "status"),
    ("cortext", "rescue"),
    ("cortext", "uninstall", "--dry-run"),
    ("aur", "agents"),
    ("aur", "spawn", "--list-sessions"),
    ("alfred", "memory", "list"),
)
CHANGES = (
    ("cortext", "stop", "004"),
    ("cortext", "resume", "003"),
    ("cortext", "upgrade"),
    ("cortext", "tag", "003", "far"),
    ("cortext", "star", "003"),
    ("cortext", "note", "003", "a", "word"),
    ("cortext", "title", "003", "Another"),
    ("cortext", "type", "add", "retro"),
    ("cortext", "restore", WALK),
    ("cortext", "delete", "003"),
    ("alfred", "memory", "add", "a fact"),
)


def _no_toml(path: Path) -> None:
    path.write_text("= not toml\n", encoding="utf-8")


def _link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def _large(path: Path) -> None:
    path.write_text("# far too long\n" * (LARGEST_FILE // 10), encoding="utf-8")


def _nested(path: Path) -> None:
    path.write_text(".".join("a" * 30_000) + "=1\n", encoding="utf-8")


KINDS: dict[str, tuple[Callable[[Path], None], str, int]] = {
    "no TOML": (_no_toml, "is not TOML", 7),
    "a link out": (_link, "leads out of the workspace", 6),
    "too large": (_large, "is too large", 7),
    "nested": (_nested, "is nested too deeply", 7),
}


class Broken:
    """A workspace with conversations and a broken settings file, why it is broken, and how a change is refused."""

    def __init__(self, pond: Pond, why: str, refusal: int) -> None:
        self.pond, self.why, self.refusal = pond, why, refusal

    def run(self, *words: str) -> Ran:
        """Run a command there."""
        env = {**self.pond.env, "XDG_DATA_HOME": "", "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}
        return run([str(SCRIPTS / words[0]), *words[1:]], cwd=self.pond.folder, env=env)


@pytest.fixture(scope="module", params=list(KINDS))
def broken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    make, why, refusal = KINDS[request.param]
    made = Broken(make_pond(tmp_path_factory.mktemp("broken")), why, refusal)
    assert made.run("cortext", "init", "--ai", "claude").code == 0
    settings = made.pond.folder / ".workspace" / "config.toml"
    settings.unlink(missing_ok=True)
    make(settings)
    git(made.pond.folder, "add", "-f", ".")
    git(made.pond.folder, "commit", "-qm", "settings of somebody")
    yield made
    done = made.run("cortext", "uninstall")  # the last, because nothing is left then
    assert done.code == 0, done.err
    assert not (made.pond.folder / ".workspace" / "commands").exists()


def test_what_only_reads_works_and_says_so_once(broken: Broken) -> None:
    for command in READS:
        done = broken.run(*command)
        assert done.code == 0, f"{command}: {done.err}"
        noted = " ".join(done.err.split())
        assert (noted.count(broken.why), noted.count(RULE)) == (1, 1), f"{command}: {done.out} {done.err}"
        if "--json" in command:
            json.loads(done.out)
    assert "A long walk" in broken.run("cortext", "list").out


def test_what_changes_something_refuses_and_changes_nothing(broken: Broken) -> None:
    for command in CHANGES:
        done = broken.run(*command)
        assert done.code == broken.refusal, f"{command}: {done.out} {done.err}"
        assert broken.why in " ".join(done.err.split()), command
    assert git(broken.pond.folder, "status", "--porcelain") == ""


def test_doctor_names_the_settings_file(broken: Broken) -> None:
    found = broken.run("cortext", "doctor")
    assert found.code == 1 and broken.why in found.out and found.err.count(RULE) == 0
    found = broken.run("cortext", "doctor", "--json")
    assert found.code == 1 and broken.why in " ".join(found.err.split())
    assert json.loads(found.out)


def test_an_agent_reads_by_mcp_and_is_told(broken: Broken) -> None:
    with mcp(broken.pond) as client:
        for name, given in (
            ("list_sessions", {}),
            ("search_workspace", {"query": "herons"}),
            ("search_sessions", {"query": "herons"}),
            ("get_context", {"topic": "herons"}),
            ("get_decision_history", {"topic": "herons"}),
            ("get_session", {"id": WALK}),
            ("touched_file", {"file": "boat.py"}),
        ):
            answer = client(name, **given)
            assert not answer.failed, f"{name}: {answer.text}"
            assert broken.why in answer.text and RULE in answer.text, name
            assert broken.why in answer.data["warnings"][0]
        for name in ("save_session", "resume_session"):
            refused = client(name, id=WALK)
            assert refused.failed and broken.why in refused.text


def test_the_page_shows_the_note_and_refuses_changes(broken: Broken) -> None:
    with serving(broken.pond.env, broken.pond.folder) as page:
        shown = page.open()
        assert page.get("/").status == 200
        assert broken.why in page.get("/").words and RULE in page.get("/results").words
        link = page.link("A long walk")
        assert page.get(link).status == 200
        assert page.get(f"{link}/export?format=markdown").status == 200, shown
        for change in ("star", "title", "delete"):
            refused = page.post(f"{link}/{change}", {"title": "Another"})
            assert refused.status == 409 and broken.why in refused.words
        assert page.get(link).status == 200 and "Another" not in page.get("/").words


@pytest.mark.parametrize("parts", [201, 30_000])
def test_a_long_dotted_key_is_refused_without_parsing_it(parts: int, tmp_path: Path) -> None:
    (tmp_path / ".workspace").mkdir()
    (tmp_path / ".workspace" / "config.toml").write_text(".".join("a" * (parts + 1)) + "=1\n", encoding="utf-8")
    began = time.process_time()
    with pytest.raises(ConfigError, match="nested too deeply"):
        load(str(tmp_path))
    assert time.process_time() - began < 1


def test_a_settings_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    (tmp_path / ".workspace").mkdir()
    text = "# a remark\n" * (LARGEST_FILE // 11) + "mcp.tokens = 3000\n"
    (tmp_path / ".workspace" / "config.toml").write_text(text[-LARGEST_FILE:].partition("\n")[2], encoding="utf-8")
    assert load(str(tmp_path), trusted=True).mcp.tokens == 3000
