"""The public library: its names, its signatures, and the examples of docs/library.md."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cortext
from tests.support.cli import cortext as run_cortext

DOCUMENT = Path(__file__).parent.parent / "docs" / "library.md"

NAMES = {
    "AmbiguousId", "Change", "ConfigError", "CortextError", "DamagedData", "InvalidId", "InvalidMessage", "Library",
    "Match", "Message", "ModelError", "NotFound", "Part", "Receipt", "ResumePacket", "SearchResult", "Session",
    "SessionBusy", "SessionExists", "SessionNotFound", "Store", "StoreUnreachable", "TransitionRefused", "UnsafePath",
    "UsageError", "WriteFailed", "__version__", "list", "open", "read", "resolve", "resume_packet", "search",
}  # fmt: skip

SIGNATURES = {
    "open": "(path_or_url, *, kind=None, create=False)",
    "list": "(*, limit=0, **filters)",
    "search": "(query, *, limit=10, per_session=3, exact=False, **filters)",
    "resolve": "(name)",
    "read": "(session, start=0)",
    "resume_packet": "(session, *, tokens=0)",
}

STORE = {
    "append", "check", "close", "create", "delete", "get", "name", "open", "peek", "read", "repair", "restore",
    "sessions", "tail", "trash", "update",
}  # fmt: skip


@pytest.mark.req("LIB-01")
def test_the_public_names_are_exactly_these() -> None:
    assert set(cortext.__all__) == NAMES
    assert all(getattr(cortext, name) is not None for name in NAMES)
    assert set(dir(cortext)) >= NAMES


@pytest.mark.req("LIB-01")
@pytest.mark.parametrize("name", SIGNATURES)
def test_a_function_and_its_method_have_the_pinned_signature(name: str) -> None:
    assert _signature(getattr(cortext, name)) == SIGNATURES[name]
    if name != "open":
        method = _signature(getattr(cortext.Library, name))
        assert method.replace("(self, ", "(") == SIGNATURES[name]


@pytest.mark.req("LIB-01")
def test_a_store_has_exactly_the_pinned_methods() -> None:
    members = {name for name in (*vars(cortext.Store), *cortext.Store.__annotations__) if not name.startswith("_")}
    assert members == STORE


@pytest.mark.req("LIB-01")
def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        cortext.nonsense  # noqa: B018


@pytest.mark.req("LIB-01")
def test_every_public_name_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    not_named = {
        "Match",
        "Receipt",
        "SearchResult",
        "ResumePacket",
        "__version__",
        "Store",
    }  # described, not named
    missing = {name for name in NAMES - not_named if not re.search(rf"\b{name}\b", text)}
    assert missing == set()


@pytest.mark.req("LIB-01")
def test_the_documented_examples_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 7
    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", "\n".join(blocks)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    assert "assistant" in ran.stdout
    assert "session-not-found" in ran.stdout
    listed = run_cortext("list", cwd=tmp_path / "shop")
    assert "Retry budget" in listed.out, listed.err


@pytest.mark.req("LIB-01")
def test_a_session_is_read_from_its_own_workspace_if_ids_collide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        store = cortext.open(tmp_path / name, create=True)
        store.create(cortext.Session(id="001-plan-same", title=name))
        store.append("001-plan-same", cortext.Message(role="user", content=f"said in {name}"))
    monkeypatch.setenv("CORTEXT_WORKSPACE", str(tmp_path / "one"))
    library = cortext.Library()
    for name in ("one", "two"):
        [session] = library.list(workspace=name)
        assert [message.text for message in library.read(session)] == [f"said in {name}"]
        assert [message.text for message in cortext.read(session)] == [f"said in {name}"]


@pytest.mark.req("LIB-01")
def test_opening_a_missing_store_says_how_to_create_it(tmp_path: Path) -> None:
    with pytest.raises(cortext.NotFound, match="no workspace store") as raised:
        cortext.open(tmp_path / "nothing")
    assert "create=True" in raised.value.hint
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(cortext.UsageError, match="not a server"):
        cortext.open("postgresql://host/database", kind="workspace")


@pytest.mark.req("LIB-01")
def test_an_unknown_filter_is_a_usage_error(tmp_path: Path) -> None:
    cortext.open(tmp_path, create=True)
    with pytest.raises(cortext.UsageError, match="colour"):
        cortext.Library(tmp_path).search("retry", colour="green")  # type: ignore[call-arg]
    with pytest.raises(cortext.UsageError, match="colour"):
        cortext.Library(tmp_path).list(colour="green")  # type: ignore[call-arg]
    with pytest.raises(cortext.UsageError, match="role"):
        cortext.Library(tmp_path).list(role="user")  # type: ignore[call-arg]
    with pytest.raises(cortext.NotFound, match="elsewhere"):
        cortext.Library(tmp_path).list(workspace="elsewhere")


def _signature(function: object) -> str:
    assert callable(function)
    found = inspect.signature(function)
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))
