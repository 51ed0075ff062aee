"""`cortext export --format html`: one file, an encrypted one, a redacted one, and a folder of pages."""

from __future__ import annotations

import base64
import hashlib
import re
import signal
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cortext.faces.cortext.commands import export
from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.session import Session
from cortext.store.files.workspace import WorkspaceStore
from cortext.web.html.document import SiteEntry, index_of
from tests.faces.pond import SECRET, Pond, make_pond
from tests.support.cli import Ran, cortext

pytestmark = pytest.mark.req("PAGE-02")


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    made = make_pond(tmp_path_factory.mktemp("share"))
    WorkspaceStore(str(made.folder)).append(
        "004-learn-knots",
        Message(role="assistant", parts=[Part(TOOL_CALL, id="r", name="Read", input={"path": "/home/ada/rope.md"})]),
        Message(role="tool", parts=[Part(TOOL_RESULT, call_id="r", output="rope " * 10_000)]),
        Message(role="user", content=f"It is in /home/ada/rope.md and {made.home}/knots, says Adalbert."),
    )  # fmt: skip
    return made


def _export(pond: Pond, *words: str, **env: str) -> Ran:
    return cortext("export", *words, cwd=pond.folder, env={**pond.env, **env})


def test_one_file_holds_everything_and_loads_nothing(pond: Pond) -> None:
    done = _export(pond, "002", "--format", "html")
    assert done.code == 0 and SECRET not in done.out and "masked anthropic-key" in done.out
    assert "masked 1 × anthropic-key" in done.err
    assert "default-src 'none'" in unescape(done.out) and "<script" not in done.out
    assert not re.search(r"""(?:src|href)=["'](?!#)""", done.out) and "@import" not in done.out
    assert "Tar it is: caulk, then paint." in done.out


def test_a_file_says_whether_secrets_are_masked(pond: Pond, tmp_path: Path) -> None:
    assert "Secrets that were recognised are masked." in _export(pond, "002", "--format", "html").out
    raw = _export(pond, "002", "--format", "html", "--unmasked").out
    assert SECRET in raw and "Secrets are not masked." in raw and "are masked" not in raw
    site = ("--format", "html", "--all", str(tmp_path / "site"), "--unmasked")
    assert _export(pond, *site).code == 0
    assert "Secrets are not masked." in (tmp_path / "site" / "002-debug-leaking-boat.html").read_text("utf-8")


def test_long_results_are_cut_unless_full(pond: Pond) -> None:
    cut = _export(pond, "004", "--format", "html").out
    full = _export(pond, "004", "--format", "html", "--full").out
    assert "44,000 more characters left out" in cut and len(cut) < 40_000
    assert full.count("rope ") >= 10_000 and "left out" not in full


def test_rules_redact_and_are_counted(pond: Pond) -> None:
    done = _export(pond, "004", "--format", "html", "--redact", "paths", "--redact", "Adalbert")
    assert "/home/ada" not in done.out and str(pond.home) not in done.out and "adalbert" not in done.out.casefold()
    assert "~/rope.md" in done.out and "[redacted]" in done.out
    assert "redacted 3 × paths" in done.err and "redacted 1 × Adalbert" in done.err


def test_a_redacted_name_is_in_no_file_name_and_no_id(tmp_path: Path) -> None:
    pond = make_pond(tmp_path)
    store = WorkspaceStore(str(pond.folder))
    store.create(Session(id="005-plan-acme-corp-pricing", type="plan", title="Acme Corp pricing"))
    store.append("005-plan-acme-corp-pricing", Message(role="user", content="What does acme_corp pay?"))
    one = _export(pond, "005", "--format", "html", "--redact", "Acme Corp")
    assert one.code == 0 and "acme" not in one.out.casefold() and "What does [redacted] pay?" in one.out
    site = tmp_path / "site"
    rules = ("--redact", "Acme Corp", "--redact", "paths")
    assert _export(pond, "--format", "html", "--all", str(site), *rules).code == 0
    names = sorted(path.name for path in site.iterdir())
    assert names == [*(f"000{number}.html" for number in range(1, 7)), "index.html"]
    written = "".join(path.read_text("utf-8") for path in site.iterdir()).casefold()
    assert "acme" not in written and "pricing" in written and str(tmp_path).casefold() not in written


def test_what_cannot_be_read_is_left_out_and_reported(tmp_path: Path) -> None:
    pond = make_pond(tmp_path)
    store = WorkspaceStore(str(pond.folder))
    store.create(Session(id="index", title="Called like the first page"))
    store.append("index", Message(role="user", content="Is it there?"))
    assert cortext("list", cwd=pond.folder, env=pond.env).code == 0
    (log,) = pond.folder.glob("conversations/*/004-learn-knots/.session/*.jsonl")
    log.rename(log.with_suffix(".gone"))
    log.mkdir()
    done = _export(pond, "--format", "html", "--all", str(tmp_path / "site"))
    assert done.code == 3 and "left out 004-learn-knots: " in done.err and "Traceback" not in done.err
    first = (tmp_path / "site" / "index.html").read_text("utf-8")
    names = re.findall(r'<a href="([^"]+)"', first)
    assert len(names) == 5 and "index-2.html" in names and "004-learn-knots.html" not in names
    assert "Is it there?" in (tmp_path / "site" / "index-2.html").read_text("utf-8")


def test_a_failed_site_leaves_the_folder_as_it_was(pond: Pond, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(entries: object) -> str:
        raise RuntimeError("on purpose")

    for name, value in pond.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(pond.folder)
    monkeypatch.setattr("cortext.web.export.first_page", fails)
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        with pytest.raises(RuntimeError):
            export.run(["--format", "html", "--all", str(tmp_path / name)])
    assert [path.name for path in tmp_path.iterdir()] == ["empty"] and not [*(tmp_path / "empty").iterdir()]


KILLED = """
import os, signal, sys
from cortext.io import durable
from cortext.faces.cortext.main import main
rename, left = os.rename, [int(sys.argv.pop(1))]
def killed(*paths):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*paths)
durable.calls.rename = killed
main()
"""


@pytest.mark.parametrize("existed", [True, False])
def test_a_killed_site_is_no_obstacle_for_the_next(pond: Pond, tmp_path: Path, existed: bool) -> None:
    """Killed before a page has its name, and before the folder has: nothing is there, or all of it."""
    folder = tmp_path / "site"
    words = ["export", "--format", "html", "--all", str(folder)]
    if existed:
        folder.mkdir()
        folder.chmod(0o755)  # whatever the umask
    for renames in (3, 7):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(renames), *words], cwd=pond.folder, env=pond.env, check=False
        )
        assert done.returncode == -signal.SIGKILL
        assert [*folder.iterdir()] == [] if existed else not folder.exists()
        assert len([*tmp_path.iterdir()]) == 1 + existed  # what the next one removes
    assert _export(pond, *words[1:]).code == 0
    assert [*tmp_path.iterdir()] == [folder] and len([*folder.glob("*.html")]) == 6
    assert folder.stat().st_mode & 0o777 == (0o755 if existed else 0o700)


def test_the_folder_a_person_is_in_is_not_replaced(pond: Pond, tmp_path: Path) -> None:
    done = cortext("export", "--format", "html", "--all", ".", cwd=tmp_path, env=pond.env)
    assert done.code == 2 and "the folder you are in" in done.err and [*tmp_path.iterdir()] == []


def test_an_encrypted_file_opens_only_with_its_passphrase(pond: Pond) -> None:
    done = _export(pond, "001", "--format", "html", "--encrypt", CORTEXT_EXPORT_PASSPHRASE="seventeen herons")
    assert done.code == 0 and "heron" not in done.out.casefold()
    fields = dict(re.findall(r'data-(\w+)="([^"]+)"', done.out))
    salt, nonce, sealed = (base64.b64decode(fields[name]) for name in ("salt", "nonce", "ciphertext"))

    def opened(passphrase: str) -> str:
        key = hashlib.pbkdf2_hmac("sha256", passphrase.encode(), salt, int(fields["iterations"]), 32)
        return AESGCM(key).decrypt(nonce, sealed, None).decode()

    assert "Seventeen herons at 06:20." in opened("seventeen herons") and int(fields["iterations"]) >= 600_000
    with pytest.raises(InvalidTag):
        opened("seventeen heron")


def test_a_site_has_a_page_for_each_conversation(pond: Pond, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    done = _export(pond, "--format", "html", "--all", str(folder))
    assert done.code == 0 and done.out.strip() == str(folder / "index.html")
    first = (folder / "index.html").read_text("utf-8")
    names = re.findall(r'<a href="([^"]+)"', first)
    assert len(names) == 5 and all((folder / name).exists() for name in names)
    assert SECRET not in "".join(path.read_text("utf-8") for path in folder.iterdir())
    again = _export(pond, "--format", "html", "--all", str(folder))
    assert again.code == 2 and "is not empty" in again.err


def test_the_index_of_a_site_has_every_word_once() -> None:
    entries = []
    for number in range(3):
        entries.append(SiteEntry(Session(id=f"s{number}", title="Knots"), f"{number}.html"))
        said = [Message(role="user", content=f"turn{number}_{turn} Straße") for turn in range(500)]
        said.append(Message(role="assistant", content="", parts=[Part("text", text="日本 \U00020000 ﬁn")]))
        said.append(Message(role="tool", content="not said"))
        assert list(entries[-1].noting(said)) == said
    index = index_of(entries)
    words, found = index["words"], index["found"]
    assert found[words.index("straße")] == found[words.index("本")] == [0, 1, 1]
    assert found[words.index("turn2")] == [2] and found[words.index("499")] == [0, 1, 1] and "fin" in words
    assert len(set(words)) == len(words) == len(found) and "said" not in words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("001", "--encrypt"), "--encrypt needs --format html"),
        ((), "no conversation was given"),
        (("001", "--format", "html", "--all", "x"), "both a conversation and --all"),
        (("001", "--format", "html", "--encrypt"), "needs a passphrase"),
        (("001", "--format", "html", "--redact", "x"), "too short to redact"),
    ],
)
def test_options_that_do_not_fit_are_refused(pond: Pond, words: tuple[str, ...], said: str) -> None:
    done = _export(pond, *words)
    assert done.code == 2 and said in done.err and done.out == ""
