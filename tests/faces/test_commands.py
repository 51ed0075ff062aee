"""What all commands share: help, exit codes, JSON, colours; then doctor, repair, trash, demo, completion."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from cortext.config import folders
from cortext.faces.cortext.commands.completion import _SCRIPTS
from cortext.faces.cortext.main import COMMANDS
from cortext.faces.cortext.main import run as main
from cortext.io import locks
from cortext.services import doctor
from cortext.testing.table import every_row
from tests.support.cli import Ran, cortext, git, run

NAMES = [name for _, commands in COMMANDS for name, _, _ in commands]


@pytest.fixture(scope="session")
def original_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create the demo workspace once; `demo` is a copy of it."""
    folder = tmp_path_factory.mktemp("demo")
    done = cortext("demo", "demo", "--quiet", cwd=folder, env={"HOME": str(folder)})
    assert done.code == 0, done.err
    # Two of them are active and old: pause them now, so that no command reports it later.
    assert cortext("sweep", cwd=folder / "demo", env={"HOME": str(folder)}).code == 0
    return folder / "demo"


@pytest.fixture
def demo(original_demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the demo workspace and change into it."""
    folder = tmp_path / "demo"
    shutil.copytree(original_demo, folder, symlinks=True)
    monkeypatch.chdir(folder)
    return folder


def _log(folder: Path, number: str) -> Path:
    return next(folder.glob(f"conversations/*/{number}-*/.session/messages.jsonl"))


def _damage(folder: Path, number: str = "002") -> tuple[Path, int]:
    """Damage a log in two places; return its path and the offset of the first damage."""
    log = _log(folder, number)
    size = log.stat().st_size
    with open(log, "ab") as file:
        file.write(b'{"role": BROKEN\n{"role":"user","content":"whole","timestamp":"2026-01-01T00:00:00Z"}\n{"torn')
    return log, size


def _here(capsys: pytest.CaptureFixture[str], *words: str) -> Ran:
    """Run a command in this process, which is faster."""
    capsys.readouterr()
    try:
        code = main(list(words))
    except SystemExit as stop:
        code = int(stop.code or 0)
    said = capsys.readouterr()
    return Ran(code, said.out, said.err)


# ── help ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("LOOK-01")
@every_row("name", NAMES)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--help", "-h"):
        done = _here(capsys, name, flag)
        assert done.code == 0 and done.err == ""
        assert done.out.startswith(f"usage: cortext {name} ")
        assert len(done.out.splitlines()) >= 3
        assert re.search(r"\n\n[A-Z][^\n]{20,}", done.out), "the help has a description"


@pytest.mark.req("LOOK-01")
def test_the_help_names_every_command_once_and_fits_the_screen() -> None:
    done = cortext("help", "--all")
    assert done.code == 0 and done.err == ""
    assert re.findall(r"^  ([a-z]+) ", done.out, re.MULTILINE) == NAMES
    assert all(len(line) <= 120 for line in done.out.splitlines())
    assert done.out.endswith(
        "Exit codes: 0 done, 1 not found or refused, 2 usage error,\n"
        "3 damaged data, 4 in use by another process, 5 could not write, 6 unsafe path, 7 invalid settings,\n"
        "8 no answer from the model, 9 no answer from the store's server.\n"
    )
    assert cortext("--help", "--all").out == done.out


@pytest.mark.req("LOOK-01")
def test_the_first_help_has_the_dozen_everyday_commands_and_says_where_the_rest_is() -> None:
    done = cortext("--help")
    assert done == Ran(0, done.out, "")
    assert len(done.out.splitlines()) <= 40
    shown = re.findall(r"^  ([a-z]+) ", done.out, re.MULTILINE)
    assert len(shown) == 12 and {"import", "list", "search", "resume", "init"} < set(shown) < set(NAMES)
    assert set(re.findall(r"^  [a-z]+ .*$", done.out, re.MULTILINE)) < set(cortext("help", "--all").out.splitlines())
    assert done.out.endswith("`cortext help --all` shows every command, and the exit codes.\n")
    assert cortext("help").out == cortext("-h").out == done.out


@pytest.mark.req("LOOK-01")
@pytest.mark.parametrize(("typed", "near"), [("lsit", "list"), ("resum", "resume or rescue"), ("docter", "doctor")])
def test_an_unknown_command_suggests_the_nearest(typed: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = _here(capsys, typed)
    hint = f"did you mean {near}? (to search for it: cortext search {typed})"
    assert done == Ran(2, "", f"cortext: error: unknown command '{typed}'\n  next: {hint}\n")
    assert _here(capsys, "--xyzzy").err.endswith("  next: see `cortext --help`\n")


# ── JSON and colour ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("LOOK-01")
@pytest.mark.parametrize(
    "words",
    [
        "list --json",
        "list --here --status completed --json",
        "show 002 --json",
        "show 002 --tail 2 --json",
        "resume --json",
        "resume --list --type plan --json",
        "resume 001 --print --json",
        "resume 001 --ai claude --dry-run --json",
        "new plan Something --json",
        "stop 001 --no-commit --json",
        "complete 001 --no-commit --json",
        "fork 001 --at 2 --json",
        "export 001 --format json",
        "delete 001 --json",
        "restore --json",
        "import --json",
        "sync --json",
        "doctor --json",
        "repair 002 --json",
        "repair 002 --dry-run --json",
        "upgrade --dry-run --json",
        "uninstall --dry-run --json",
        "tools --json",
    ],
)
def test_json_output_is_nothing_but_json(words: str, demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = _here(capsys, *words.split())
    assert done.code in (0, 1), done
    assert isinstance(done.json, (dict, list))
    assert "\x1b" not in done.out


@pytest.mark.req("SESS-004b")
@pytest.mark.parametrize("named", ["1", "002", "auth token expiry", "auth tokn expiri", "002-debug-auth-token-expiry"])
def test_show_takes_every_name_that_resume_takes(named: str, demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _here(capsys, "show", *named.split(), "--json").json["id"] == "002-debug-auth-token-expiry"
    assert "Auth token expiry" in _here(capsys, "export", *named.split()).out


@pytest.mark.req("LOOK-01")
@pytest.mark.parametrize("named", ["1", "auth"])
def test_delete_takes_neither_words_nor_an_unlisted_row(
    named: str, demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = _here(capsys, "delete", named)
    assert done.code == 1 and "no conversation matches" in done.err
    assert _here(capsys, "delete", "002").code == 0


def test_a_similar_word_in_a_long_summary_does_not_match(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = "Hope, rope, note and scope: " + "every word of a long text is like some other. " * 50
    assert _here(capsys, "stop", "002", "--summary", summary, "--no-commit").code == 0
    assert _here(capsys, "show", "nope").code == 1
    assert _here(capsys, "show", "scope").code == 0


@pytest.mark.req("LOOK-01")
def test_an_empty_conversation_cannot_be_forked(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = _here(capsys, "new", "plan", "Nothing said", "--json").json["id"]
    done = _here(capsys, "fork", made)
    assert done.code == 1 and f"{made} has no messages yet" in done.err and "None" not in done.err


@pytest.mark.req("LOOK-01")
def test_errors_are_json_with_json(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = _here(capsys, "show", "999", "--json")
    assert done.code == 1 and done.err == ""
    assert done.json == {
        "error": {
            "code": "session-not-found",
            "message": "no conversation matches '999'",
            "hint": "1, 2, … are the rows of the last list or search, 001 is its own number; see `cortext list`",
        }
    }


@pytest.mark.req("LOOK-01")
def test_plain_when_piped_coloured_when_forced_and_no_color_wins(demo: Path) -> None:
    plain = cortext("list", cwd=demo)
    forced = cortext("list", cwd=demo, env={"FORCE_COLOR": "1"})
    both = cortext("list", cwd=demo, env={"FORCE_COLOR": "1", "NO_COLOR": "1"})
    assert "\x1b" not in plain.out + plain.err
    assert "\x1b[" in forced.out
    assert both.out == plain.out
    assert re.sub(r"\x1b\[[0-9;]*m", "", forced.out) == plain.out, "colour changes nothing else"


# ── exit codes ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("LOOK-01")
def test_exit_1_not_found_or_refused(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["show", "999"], ["repair", "999"], ["restore", "x"], ["delete", "../x"], ["show", "0"]):
        done = _here(capsys, *words)
        assert done.code == 1 and done.out == "", words
        assert re.fullmatch(r"cortext: error: [^\n]+\n  next: [^\n]+\n", done.err), done.err
    assert _here(capsys, "stop", "005").code == 1, "completed to paused is refused"


@pytest.mark.req("LOOK-01")
def test_exit_2_not_understood(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["list", "--nosuch"], ["show"], ["list", "--status", "x"], ["completion", "tcsh"]):
        assert _here(capsys, *words).code == 2, words


@pytest.mark.req("LOOK-01")
def test_exit_4_in_use_by_another_process_names_it(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = _log(demo, "003")
    before = log.parent.joinpath("session.json").read_bytes()
    name = log.parent.parent.name
    with locks.Lock(str(demo / ".workspace" / "state" / "locks" / f"{name}.lock")) as lock:
        lock.acquire(1, "the test")
        done = cortext("title", "003", "Another", cwd=demo, env={"CORTEXT_STORE_LOCK_TIMEOUT": "0.05"})
        assert done.code == 4
        assert f"process {os.getpid()} on " in done.err
        assert "kept: nothing was changed" in done.err and "next: waited 0.05 s" in done.err
        assert cortext("show", "003", cwd=demo).code == 0, "readers do not wait"
    assert log.parent.joinpath("session.json").read_bytes() == before
    assert cortext("title", "003", "Another", cwd=demo).out.endswith(": Another\n")


@pytest.mark.req("LOOK-01")
@pytest.mark.parametrize("words", [["title", "003", "Another"], ["new", "plan", "Hello"], ["fork", "003"]])
def test_exit_5_could_not_write(demo: Path, words: list[str]) -> None:
    log = _log(demo, "003")
    before = {path: path.read_bytes() for path in log.parent.iterdir()}
    done = run(["bash", "-c", 'ulimit -f 0; exec cortext "$@"', "-", *words], cwd=demo)
    assert done.code == 5, (done.out, done.err)
    assert "could not write" in done.err and "kept:" in done.err and "next:" in done.err
    assert {path: path.read_bytes() for path in log.parent.iterdir()} == before
    assert cortext("doctor", cwd=demo).code == 0


@pytest.mark.req("STORE-01")
@pytest.mark.parametrize("words", [["list"], ["resume", "--list"], ["show", "003"], ["resume", "003", "--print"]])
def test_read_commands_work_on_a_full_disk(demo: Path, words: list[str]) -> None:
    """The list cannot be updated on disk, so it is built in memory and the stored one is not changed."""
    before = cortext(*words, cwd=demo)
    catalogue = Path(folders.cache()) / "catalogue.db"
    kept = catalogue.stat().st_ino
    done = run(["bash", "-c", 'ulimit -f 0; exec cortext "$@"', "-", *words], cwd=demo)
    assert (done.code, done.out.splitlines()[:3]) == (0, before.out.splitlines()[:3]), done.err
    assert catalogue.stat().st_ino == kept
    assert cortext(*words, cwd=demo).code == 0


@pytest.mark.req("STORE-01", "LOOK-01")
def test_a_search_on_a_full_disk_says_so_and_keeps_the_index(demo: Path) -> None:
    before = cortext("search", "grace window", "--json", cwd=demo).json
    kept = sorted(path for path in Path(folders.cache()).glob("**/state.db"))
    done = run(["bash", "-c", "ulimit -f 0; exec cortext search grace window"], cwd=demo)
    assert done.code == 5 and "could not write the search index" in done.err and "Traceback" not in done.err
    assert before and cortext("search", "grace window", "--json", cwd=demo).json == before
    assert sorted(path for path in Path(folders.cache()).glob("**/state.db")) == kept, "no new index was created"


@pytest.mark.req("LOOK-01", "SAFE-01")
def test_exit_6_a_link_is_not_followed(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = _log(demo, "004")
    outside = tmp_path / "outside"
    outside.write_bytes(log.read_bytes())
    log.unlink()
    log.symlink_to(outside)
    done = _here(capsys, "title", "004", "Another")
    assert done.code == 6
    assert "is a symbolic link" in done.err and "kept: it was not followed" in done.err
    seen = _here(capsys, "doctor")
    assert seen.code == 3
    assert "do: a store contains regular files only" in seen.out, (
        "the hint says what helps, not a repair that cannot work"
    )


@pytest.mark.req("LOOK-01")
def test_exit_7_bad_settings(demo: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (demo / ".workspace" / "config.toml", home / ".config" / "cortext" / "config.toml"):
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_text("[store]\nlock_timeout = 'soon'\n", encoding="utf-8")
        done = _here(capsys, "stop", "001")
        assert done.code == 7 and "config.toml: store.lock_timeout" in done.err
        name.write_text("nonsense = 1\n", encoding="utf-8")
    assert _here(capsys, "list").code == 7, "an error in the user's own file, which the user can fix"
    name.unlink()
    for words in ("list", "doctor"):
        done = _here(capsys, words)
        assert done.code == 0, "a workspace's file may come from another version"
        assert "config.toml: unknown setting nonsense; it was ignored" in done.out + done.err


# ── doctor and repair ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("STORE-06", "LOOK-01")
def test_doctor_on_nothing_and_on_a_healthy_store(demo: Path, tmp_path: Path) -> None:
    empty = cortext("doctor", cwd=tmp_path)
    assert empty == Ran(0, "Nothing is stored yet, so there is nothing to check. Start with `cortext demo`.\n", "")
    assert cortext("doctor", "--json", cwd=tmp_path) == Ran(0, "[]\n", "")
    healthy = cortext("doctor", cwd=demo)
    said = f"✓ demo (workspace): 12 sessions, 218 messages\n    {demo}\nNo problems found.\n"
    assert healthy == Ran(0, said, "")


@pytest.mark.req("STORE-06", "LOOK-01")
def test_doctor_and_repair_report_location_extent_and_remedy(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, size = _damage(demo)
    broken = log.read_bytes()
    name = log.parent.parent.name
    done = _here(capsys, "doctor")
    assert done.code == 3
    assert f"{name}: messages.jsonl at byte {size}: JSON is malformed" in done.out
    assert f"at byte {len(broken) - 6}: an incomplete last line" in done.out
    assert f"do: cortext repair {name}\n" in done.out
    found = _here(capsys, "doctor", "--json").json[0]["findings"]
    assert [item["offset"] for item in found[0]["damage"]] == [size, len(broken) - 6]
    assert "(damaged)" in _here(capsys, "list").out
    dry = _here(capsys, "repair", "002", "--dry-run")
    assert dry.code == 0
    assert dry.out.endswith(f" in {demo}: 21 messages would be kept, 22 bytes would be quarantined.\n")
    assert f'\n{name} ("' in dry.out
    assert log.read_bytes() == broken
    wet = _here(capsys, "repair", "002")
    assert wet.out == dry.out.replace("would be ", "") + f"What could not be read is in {log}.quarantine\n"
    assert log.read_bytes() != broken
    aside = [json.loads(line) for line in Path(f"{log}.quarantine").read_text(encoding="utf-8").splitlines()]
    assert [base64.b64decode(item["base64"]) for item in aside] == [b'{"role": BROKEN\n', b'{"torn']
    assert _here(capsys, "doctor").code == 0
    assert _here(capsys, "repair", "002").out.endswith(f" in {demo}: not damaged (21 messages).\n")


@pytest.mark.req("STORE-06", "LOOK-01")
def test_doctor_counts_the_damage_it_does_not_list(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(_log(demo, "002"), "ab") as file:
        file.write(b"bad\n" * 10)
    assert "and 7 more places" in _here(capsys, "doctor").out
    assert len(_here(capsys, "doctor", "--json").json[0]["findings"][0]["damage"]) == 10


@pytest.mark.req("STORE-05")
@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ("/dev/sda / ext4 rw 0 0\nserver:/x {root} nfs4 rw 0 0\n", "nfs4"),
        ("/dev/sda / ext4 rw 0 0\nserver:/x {root} ext4 rw 0 0\nserver:/x {root} cifs rw 0 0\n", "cifs"),
        ("server:/ / nfs rw 0 0\n/dev/sda {root} ext4 rw 0 0\n", "ext4"),
        ("/dev/sda / ext4 rw 0 0\nserver:/x {root}-other nfs rw 0 0\n", "ext4"),
        ("odd line\n\n/dev/sda / fuse.sshfs rw 0 0\n", "fuse.sshfs"),
        ("", ""),
    ],
)
def test_doctor_warns_about_a_network_file_system(
    mounts: str,
    kind: str,
    demo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = tmp_path / "mounts"
    blank = os.path.realpath(demo.rename(tmp_path / "my notes"))
    monkeypatch.chdir(blank)
    table.write_text(mounts.format(root=blank.replace(" ", "\\040")), encoding="utf-8")
    monkeypatch.setattr(doctor, "MOUNTS", str(table))
    assert doctor.file_system_of(blank) == kind
    done = _here(capsys, "doctor")
    assert done.code == 0, "a warning is not damage"
    assert (f"is on a network file system ({kind})" in done.out) is (kind in ("nfs4", "cifs", "fuse.sshfs"))
    monkeypatch.setattr(doctor, "MOUNTS", str(tmp_path / "none"))
    assert doctor.file_system_of(blank) == ""


# ── trash, demo, where you are ───────────────────────────────────────────────────────────────────────


@pytest.mark.req("STORE-02", "LOOK-01")
def test_delete_and_restore(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _log(demo, "007").parent.parent
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert _here(capsys, "restore").out == "The trash is empty.\n"
    gone = _here(capsys, "delete", "007")
    said = re.fullmatch(
        r'Moved (007-plan-japan-in-may) \("[^"]+"\) in \S+, 20 messages, to the trash\.\nUndo: cortext restore (\S+)\n',
        gone.out,
    )
    assert said, gone
    assert not folder.exists()
    assert _here(capsys, "show", "007").code == 1
    assert said[1] in _here(capsys, "restore").out
    back = f'Restored 007-plan-japan-in-may ("Two weeks in Japan") in {demo}, 20 messages.\n'
    assert _here(capsys, "restore", said[2]).out == back
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    _here(capsys, "delete", "007")
    assert _here(capsys, "restore", said[1]).code == 0, "by its id too"


@pytest.mark.req("LOOK-01")
def test_the_demo_works_in_an_empty_home_and_twice(tmp_path: Path, home: Path) -> None:
    assert list(home.iterdir()) == []
    first = cortext("demo", cwd=tmp_path)
    assert first.code == 0, first.err
    for words in ("12 conversations written", "$ cortext search ", "40 of 40 messages", "Your turn: "):
        assert words in first.out
    assert "refused the commit" not in first.out
    assert cortext("list", "--json", cwd=tmp_path / "cortext-demo").err == "", "nothing was left active"
    second = cortext("demo", cwd=tmp_path)
    assert second.code == 0, second.err
    assert second.out.startswith("Nothing to write: cortext-demo has all conversations of the demo already.")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("x", encoding="utf-8")
    assert cortext("demo", "mine", cwd=tmp_path).code == 2
    assert os.listdir(tmp_path / "mine") == ["x"]


@pytest.mark.req("LOOK-01")
def test_a_demo_whose_folder_was_removed_is_written_again(tmp_path: Path, home: Path) -> None:
    def made() -> dict[str, int]:
        done = cortext("demo", "--quiet", "demo", cwd=tmp_path)
        assert (done.code, done.out) == (0, "12 conversations written to demo, as plain files in git.\n"), done
        rows = cortext("list", "--here", "--json", cwd=tmp_path / "demo").json
        assert run(["git", "-C", str(tmp_path / "demo"), "status", "--porcelain", "conversations"]).out == ""
        assert len(list((tmp_path / "demo" / "conversations").glob("*/*/*.md"))) == 12
        return {row["id"]: row["message_count"] for row in rows}

    first = made()
    assert len(first) == 12
    cortext("list", cwd=tmp_path / "demo")
    shutil.rmtree(tmp_path / "demo")
    assert made() == first
    assert "No problems found." in cortext("doctor", cwd=tmp_path / "demo").out


@pytest.mark.req("LOOK-01")
def test_cortext_alone_reports_the_workspace_and_next_steps(demo: Path, tmp_path: Path, home: Path) -> None:
    nowhere = cortext(cwd=tmp_path)
    assert nowhere.out == (
        "No workspace here. cortext init sets one up in this folder.\n"
        "Nothing is stored yet. cortext import imports what your AI tools have stored;\n"
        "cortext demo makes a workspace to try out.\n"
    )
    here = cortext(cwd=demo)
    assert here.code == 0
    assert here.out.splitlines()[0] == f"Workspace {demo}"
    assert (
        here.out.splitlines()[-1] == "12 conversations in all. cortext resume continues one, cortext help shows more."
    )
    assert "12 conversations in all." in cortext(cwd=tmp_path).out, "a workspace that was used is known everywhere"


# ── completion ───────────────────────────────────────────────────────────────────────────────────────


def _bash(folder: Path, *words: str) -> list[str]:
    """Return what a real bash completes the last word to."""
    listed = " ".join(f"'{word}'" for word in ("cortext", *words))
    script = (
        'eval "$(cortext completion bash)"\n'
        "complete -p cortext | grep -q -- '-F _cortext' || exit 9\n"
        f"COMP_WORDS=({listed}); COMP_CWORD={len(words)}\n_cortext\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = run(["bash", "--norc", "-c", script], cwd=folder)
    assert done.code == 0, done.err
    return done.out.splitlines()


@pytest.mark.req("LOOK-03")
def test_bash_completes_commands_options_types_and_sessions(demo: Path) -> None:
    assert _bash(demo, "re") == ["resume", "restore", "rescue", "repair"]
    assert _bash(demo, "") == NAMES
    assert _bash(demo, "show", "01") == [
        "012-plan-billing-out-of-monolith",
        "010-brainstorm-naming-the-replay-tool",
        "011-learn-idempotenz-auf-deutsch",
    ]
    assert _bash(demo, "new", "") == ["brainstorm", "debug", "learn", "meeting", "plan", "review"]
    assert _bash(demo, "list", "--s") == ["--sort", "--starred", "--status"]
    assert _bash(demo, "stop", "--s") == ["--summary"]


@pytest.mark.req("LOOK-03")
def test_bash_completion_is_silent_without_sessions(tmp_path: Path) -> None:
    assert _bash(tmp_path, "show", "") == [""]
    assert _bash(tmp_path, "new", "") == [""]
    assert _bash(tmp_path, "nosuch", "--x") == [""]


@pytest.mark.req("LOOK-03")
def test_zsh_and_fish_get_completion_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in _SCRIPTS:
        done = _here(capsys, "completion", shell)
        assert done.code == 0 and "cortext complete-words" in done.out and "2>/dev/null" in done.out
    assert _here(capsys, "completion", "zsh").out.startswith("#compdef cortext\n")
    assert "complete -c cortext" in _here(capsys, "completion", "fish").out


@pytest.mark.req("LOOK-03")
def test_every_command_and_its_options_can_be_completed(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        options = _here(capsys, "complete-words", name, "--").out.split()
        assert "--help" in options, name
        assert options == sorted(options)
    assert json.loads(_here(capsys, "list", "--json").out)


@pytest.mark.req("LOOK-01")
def test_the_demo_inside_another_repository_leaves_that_one_alone(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "mine.txt").write_text("mine\n", encoding="utf-8")
    git(tmp_path, "add", "mine.txt")
    git(tmp_path, "commit", "-qm", "mine")
    assert cortext("demo", "--quiet", cwd=tmp_path).code == 0
    assert git(tmp_path, "log", "--format=%s").split() == ["mine"]
    assert git(tmp_path / "cortext-demo", "log", "--format=%s").strip() == "A dozen conversations (session state saved)"


@pytest.mark.req("LOOK-01")
@pytest.mark.parametrize("wide", [40, 80])
def test_an_error_wraps_on_a_terminal_and_not_in_a_pipe(wide: int, tmp_path: Path) -> None:
    words = ("show", "999")
    plain = cortext(*words, cwd=tmp_path).err
    narrow = cortext(*words, cwd=tmp_path, env={"COLUMNS": str(wide)}).err
    assert max(map(len, plain.splitlines())) > 80, "long enough to wrap"
    assert max(map(len, narrow.splitlines())) <= wide
    assert narrow.split() == plain.split(), "no word is split or lost"
