"""Filters, alone and together, choose the same conversations on the page, in `cortext list` and in `cortext browse`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode

import pytest

from cortext.faces.cortext.commands import browse
from cortext.model.message import Message
from cortext.model.session import Change, Origin, Session
from cortext.services.library.typed_search import TypedSearch
from cortext.store.files.workspace import WorkspaceStore
from cortext.wiring.stores import Stores
from tests.faces.pond import Pond, make_pond
from tests.support.cli import cortext
from tests.support.waiting import wait_until
from tests.web.served import Served

pytestmark = pytest.mark.req("PAGE-01", "ORDER-01")

# Name, project, tool, type, status, day of the last activity, what was tagged, starred or archived.
HELD = (
    ("020-plan-oak", "pond", "claude", "plan", "paused", "2026-03-10", "wood billing *"),
    ("021-debug-elm", "pond", "codex", "debug", "paused", "2026-03-12", "wood"),
    ("022-plan-ash", "pond", "gemini", "plan", "completed", "2026-03-14", "wood *"),
    ("023-plan-yew", "pond", "codex", "plan", "paused", "2026-03-16", "wood billing archived"),
    ("claude-fir", "hill", "claude", "", "paused", "2026-03-12", "wood billing"),
    ("codex-bay", "hill", "codex", "", "completed", "2026-03-18", "*"),
    ("gemini-box", "hill", "gemini", "", "completed", "2026-04-18", ""),
)
ARCHIVED = "023-plan-yew"
Wanted = Mapping[str, str]
ASKED: tuple[tuple[Wanted, set[str]], ...] = (
    ({"tool": "claude,codex", "after": "2026-03-05", "before": "2026-03-31"},
     {"020-plan-oak", "021-debug-elm", "claude-fir", "codex-bay"}),
    ({"tool": "codex", "project": "pond"}, {"021-debug-elm"}),
    ({"tool": "codex,gemini", "type": "plan,debug", "tag": "#wood"}, {"021-debug-elm", "022-plan-ash"}),
    ({"project": "hill", "tag": "#wood", "status": "paused", "after": "2026-03-11"}, {"claude-fir"}),
    ({"project": "pond", "tag": "#wood", "status": "paused", "after": "2026-03-11"}, {"021-debug-elm"}),
    ({"tag": "#wood,#billing"}, {"020-plan-oak", "claude-fir"}),
    ({"tag": "#wood,starred", "status": "completed"}, {"022-plan-ash"}),
    ({"tag": "#billing,archived", "tool": "claude,codex"}, {"023-plan-yew"}),
    ({"tag": "starred", "tool": "claude,codex", "before": "2026-03-15"}, {"020-plan-oak"}),
    ({"tool": "claude,gemini", "status": "completed", "project": "hill", "after": "2026-04"}, {"gemini-box"}),
    ({"tool": "vibe,codex", "tag": "#billing"}, set()),
)  # fmt: skip


def _fill(pond: Pond) -> None:
    here = WorkspaceStore(str(pond.folder))
    home = WorkspaceStore(str(pond.home / ".local" / "share" / "cortext" / "home"))
    hill = pond.home / "hill"
    hill.mkdir()
    for name, project, tool, kind, status, day, marks in HELD:
        store = here if project == "pond" else home
        extra = {} if project == "pond" else {"project": str(hill)}
        at = f"{day}T10:00:00.000Z"
        store.create(Session(id=name, type=kind, title=name, created_at=at, origin=Origin(tool=tool), extra=extra))
        store.append(name, Message(role="user", content=f"We talk about timber of {name}.", timestamp=at))
        store.update(name, Change(status=status))
        given = {"*": ("star", name), "archived": ("archive", name)}
        for mark in marks.split():
            words = given.get(mark, ("tag", name, mark))
            assert cortext(*words, cwd=pond.folder, env=pond.env).code == 0


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    made = make_pond(tmp_path_factory.mktemp("filters"))
    _fill(made)
    return made


def _project(pond: Pond, name: str) -> str:
    return str(pond.folder if name == "pond" else pond.home / "hill")


def _options(pond: Pond, wanted: Wanted) -> list[str]:
    """Return the same filters as options of a command."""
    words = []
    for name, value in wanted.items():
        for piece in value.split(",") if name == "tag" else [value]:
            if name == "tag" and not piece.startswith("#"):
                words.append(f"--{piece}")
            else:
                words += [f"--{name}", _project(pond, piece) if name == "project" else piece.removeprefix("#")]
    return words


def _on_page(served: Served, pond: Pond, wanted: Wanted, **more: str) -> set[str]:
    given = {name: _project(pond, value) if name == "project" else value for name, value in wanted.items()}

    def results() -> str:
        """Return the results, once the index is ready."""
        reply = served.get(f"/results?{urlencode({**given, **more})}")
        assert reply.status == 200, reply.words
        return "" if "data-again" in reply.text else reply.text

    return set(re.findall(r'<h2[^>]*><a href="/c/[0-9a-f]+/([^"?]+)', wait_until(results, why="the index is ready")))


@pytest.mark.parametrize(("wanted", "expected"), ASKED, ids=[" ".join(wanted) for wanted, _ in ASKED])
def test_the_same_filters_choose_the_same_everywhere(
    served: Served, pond: Pond, monkeypatch: pytest.MonkeyPatch, wanted: Wanted, expected: set[str]
) -> None:
    words = _options(pond, wanted)
    listed = cortext("list", "--json", *words, cwd=pond.folder, env=pond.env)
    assert {row["id"] for row in listed.json} == expected
    assert _on_page(served, pond, wanted) == expected
    found = _on_page(served, pond, wanted, q="timber")
    assert found - {ARCHIVED} == expected - {ARCHIVED} and found >= expected  # what is archived is still found
    for name in ("HOME", "PATH"):
        monkeypatch.setenv(name, pond.env[name])
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    stores = Stores(str(pond.folder))
    finder = TypedSearch(stores.listing, stores.search, None, lambda: None, any_project=True)
    query = browse.first_query(browse.parser().parse_args(words), stores)
    assert {hit.session.id for hit in finder.find(query).answer.hits} == expected


def test_several_values_of_an_address_are_repeated_or_separated_by_commas(served: Served, pond: Pond) -> None:
    repeated = served.get("/results?tool=claude&tool=codex&tag=%23wood&tag=%23billing")
    assert set(re.findall(r'<h2[^>]*><a href="/c/[0-9a-f]+/([^"?]+)', repeated.text)) == {"020-plan-oak", "claude-fir"}
    page = served.get("/?tool=claude,codex")
    assert "Claude Code, Codex" in page.words  # the filter shows what is chosen
    assert served.get("/?tag=%23wood,nonsense").status == 400


def test_the_count_is_that_of_the_list_and_the_archive_has_its_own(served: Served, pond: Pond) -> None:
    listed = cortext("list", "--all", "--json", cwd=pond.folder, env=pond.env).json
    assert f"{len(listed)} conversations, newest first" in served.get("/").words
    assert f"1 of {len(listed)} conversations" in served.get("/?tool=codex&type=debug").words
    assert "1 of 1 conversation," in served.get("/?tag=archived").words
