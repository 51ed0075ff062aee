"""Nobody sees what is not theirs: owners in every statement, and policies in the database behind them."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import psycopg
import pytest

from cortext.agents.assistant.commands import COMMANDS as ALFRED
from cortext.agents.aur import main as aur
from cortext.errors import ConfigError, CortextError, NotFound, NotShared, SessionBusy, SessionNotFound, UsageError
from cortext.faces.cortext.main import COMMANDS, HIDDEN
from cortext.faces.mcp.calls import SPECS
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.session import Change, Session
from cortext.server import admin, schema
from cortext.server.driver import CHANGEABLE
from cortext.server.store import PostgresStore
from cortext.services.library.stores import StoredConversation
from cortext.store.assistant import Fact
from cortext.web.library import store_key
from tests.agents.alfred.conftest import Desk
from tests.agents.alfred.kit import Parrot, environment
from tests.server.team import Team
from tests.support.cli import Ran, cortext
from tests.support.postgres import needs_policies, needs_vectors, new_space, shared
from tests.web.served import serving

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
TABLES = ("sessions", "messages", "notes", "quarantine", "claims", "chats", "updates", "facts", "vectors", "shares")


@pytest.fixture(scope="module")
def team() -> Team:
    return Team(policies=True)


@pytest.fixture(scope="module")
def open_team() -> Team:
    """The same without policies: the statements alone must keep people apart."""
    return Team(policies=False)


@pytest.fixture(params=["policies", "statements alone"])
def crew(request: pytest.FixtureRequest) -> Team:
    """One after the other: a test that has it runs with policies and without them."""
    found: Team = request.getfixturevalue("team" if request.param == "policies" else "open_team")
    return found


def fill(team: Team, role: str, session_id: str, *words: str) -> PostgresStore:
    """Create a session of a role with something in every table that a session has."""
    store = team.store(role)
    store.create(Session(id=session_id, title=f"title {words[0]}", summary=f"summary {words[0]}", type="debug"))
    store.append(session_id, *(Message(role=USER, content=f"about {word}") for word in words))
    return store


# ── statements and policies ──────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TEAM-01")
def test_two_owners_use_the_same_ids_without_noticing_each_other(open_team: Team) -> None:
    ann, ben = open_team.store(open_team.ann), open_team.store(open_team.ben)
    for store, word in ((ann, "walnut"), (ben, "hazel")):
        store.create(Session(id="001-same", title=word))
        store.append("001-same", Message(role=USER, content=word))
        store.chats().activate("cli", "001-same" if word == "walnut" else "002-other")
        store.facts().add(Fact(id="mem_1", text="I like tea"))
        assert store.claims().claim("embed", "001-same", 30.0) is not None
        assert len(store.updates(7).take([(1 if word == "walnut" else 2, "tg_1", {"text": word})])) == 1
    for store, word, chat in ((ann, "walnut", "001-same"), (ben, "hazel", "002-other")):
        assert (
            [session.title for session in store.sessions()] == [session.title for session in store.listed()] == [word]
        )
        assert [message.content for message in store.read("001-same")] == [word]
        assert [hit.message.content for hit in store.find("walnut hazel")] == [word]
        assert store.chats().active("cli") == chat
        assert [fact.text for fact in store.facts().all()] == ["I like tea"]
        assert [taken.body["text"] for taken in store.updates(7).waiting()] == [word]
        assert store.server().sessions == 1
    ben.facts().forget("mem_1")
    ben.delete("001-same")
    assert [item.session_id for item in ann.trash()] == [] and len(ann.facts().all()) == 1
    assert ann.get("001-same").title == "walnut"
    with pytest.raises(NotFound):
        ann.restore(next(iter(ben.trash())).key)
    for store in (ann, ben):
        store.close()


@pytest.mark.req("TEAM-01")
def test_policies_hide_every_row_from_a_statement_without_a_filter(team: Team) -> None:
    needs_vectors()
    name = new_space()
    store = fill(team, team.ann, name, "secretword")
    store.annotate(name, {"type": "embedding", "message_id": "m", "model": "m", "vector": [0.5, 0.5]})
    store.facts().add(Fact(id="", text="secretword"))
    store.chats().activate(name, name)
    store.claims().claim("t", name, 30.0)
    store.updates(9).take([(1, name, {"text": "secretword"})])
    store.shares().share(name, team.group)
    for table in TABLES:
        if table == "quarantine":
            continue
        assert team.sql(f"SELECT * FROM cortext.{table}", role=team.ann), f"{table} has rows to hide"
        assert team.sql(f"SELECT * FROM cortext.{table}", role=team.ben) == [], table
    for statement in (
        "UPDATE cortext.sessions SET title = 'mine', deleted_at = NULL",
        "UPDATE cortext.messages SET content = 'mine'",
        "DELETE FROM cortext.messages",
        "DELETE FROM cortext.shares",
        "UPDATE cortext.facts SET record = '{}'",
    ):
        team.sql(statement, role=team.ben)
    assert [message.content for message in store.read(name)] == ["about secretword"]
    assert store.get(name).title == "title secretword" and len(store.shares().given()) >= 1
    life = team.sql("SELECT life FROM cortext.sessions WHERE session_id = %s", name)[0][0]
    for statement, values in (
        ("INSERT INTO cortext.messages VALUES (%s, %s, 99, 'x', 'user', '', 0, 'forged', NULL)", (name, life)),
        ("INSERT INTO cortext.facts VALUES ('chat', 'f', 's', '{}', '', NULL, NULL, %s)", (team.ann,)),
        ("INSERT INTO cortext.audit VALUES (%s, %s, '', '', %s, %s, 'read')", (name, life, team.ann, team.ann)),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            team.sql(statement, *values, role=team.ben)
    # A share that names a session of somebody else shares nothing, and is not in the way of a real one.
    forged = "INSERT INTO cortext.shares VALUES (%s, %s, %s, %s, true, '')"
    team.sql(forged, name, life, team.ben, team.ben, role=team.ben)
    assert team.sql("SELECT * FROM cortext.sessions", role=team.ben) == []
    assert store.shares().share(name, team.ben).owner == team.ann
    assert team.sql("SELECT session_id FROM cortext.sessions", role=team.ben) == [(name,)]
    assert store.shares().unshare(name, team.ben) == [team.ben]
    rows = "SELECT owner FROM cortext.shares WHERE session_id = %s AND grantee = %s"
    assert team.sql(rows, name, team.ben) == [(team.ben,)], "each takes back only what is theirs"
    store.close()


@pytest.mark.req("TEAM-01")
def test_a_row_that_somebody_else_stored_first_is_not_taken_over(crew: Team) -> None:
    name = new_space()
    ann, ben = fill(crew, crew.ann, name, "larch"), crew.store(crew.ben)
    life = crew.sql("SELECT life FROM cortext.sessions WHERE session_id = %s", name)[0][0]
    crew.sql("INSERT INTO cortext.shares VALUES (%s, %s, %s, %s, true, '')", name, life, crew.group, crew.ben)
    assert not ann.shares().share(name, crew.group).can_write
    rows = "SELECT owner, can_write FROM cortext.shares WHERE session_id = %s"
    assert set(crew.sql(rows, name)) == {(crew.ann, False), (crew.ben, True)}
    # The same update of the same bot, received by the processes of two owners.
    for store in (ben, ann):
        assert [taken.chat for taken in store.updates(8).take([(1, name, {"text": "hello"})])] == [name]
        assert store.updates(8).take([(1, name, {"text": "hello"})]) == []
    for store in (ann, ben):
        store.close()


@pytest.mark.req("TEAM-01")
def test_a_service_role_acts_for_the_owner_in_the_setting(team: Team) -> None:
    service = f"service_{new_space()}"
    team.sql(f"CREATE ROLE {service} LOGIN PASSWORD '{shared().password}' IN ROLE {team.users}")
    admin.run(team.url, admin.policies(team.url, service=service))
    second = f"other_{new_space()}"
    team.sql(f"CREATE ROLE {second} LOGIN PASSWORD '{shared().password}' IN ROLE {team.users}")
    admin.run(team.url, admin.policies(team.url, service=second))
    admin.run(team.url, admin.policies(team.url))  # neither of them ends what the first one permits
    one, other = (team.store(service, owner=name) for name in ("dora", "emil"))
    one.create(Session(id="talk", title="of dora"))
    assert [session.title for session in other.sessions()] == []
    other.create(Session(id="talk", title="of emil"))
    assert one.get("talk").title == "of dora"
    one.shares().share("talk", "emil")
    assert team.shared(service, owner="emil").get("talk").title == "of dora"
    assert team.store(team.ben).listed() == []
    assert team.store(second, owner="dora").get("talk").title == "of dora"
    admin.run(team.url, admin.policies(team.url, service=second, remove=True))
    assert team.store(second, owner="dora").listed() == []
    assert one.get("talk").title == "of dora"
    for store in (one, other):
        store.close()


@pytest.mark.req("TEAM-01")
def test_a_table_that_is_created_later_has_the_policies_and_grants_of_the_others() -> None:
    needs_vectors()
    crew = Team(policies=True)
    service = f"service_{new_space()}"
    crew.sql(f"CREATE ROLE {service} LOGIN PASSWORD '{shared().password}' IN ROLE {crew.users}")
    admin.run(crew.url, admin.policies(crew.url, service=service))
    crew.sql("DROP TABLE cortext.vectors")
    with admin.connected(crew.url) as connection:
        schema.enable_vectors(connection)
    record: dict[str, object] = {"type": "embedding", "message_id": "m", "model": "m", "vector": [0.5, 0.5]}
    ann = fill(crew, crew.ann, "talk", "willow")
    ann.annotate("talk", record)  # the role may not use the table yet, which is no reason to fail
    assert not ann.has_vectors()
    admin.migrate(crew.url, report=lambda step: None)
    ann.annotate("talk", record)
    rows = "SELECT session_id FROM cortext.vectors"
    assert ann.has_vectors() and crew.sql(rows, role=crew.ann) == [("talk",)]
    assert crew.sql(rows, role=crew.ben) == [] and crew.sql(rows, role=service) == [("talk",)]
    ann.close()


@pytest.mark.req("TEAM-01")
def test_status_and_doctor_say_whether_the_server_itself_keeps_people_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    crew = Team(policies=False)
    ann, ben = fill(crew, crew.ann, "talk", "elm"), crew.store(crew.ben)
    assert ann.server().policies == "off" and not ann.server().is_shared, "alone on a server, nothing has to be hidden"
    ben.create(Session(id="other"))
    monkeypatch.setenv("CORTEXT_STORE", crew.at(crew.ann))
    for words in (("store", "status"), ("doctor",)):
        done = cortext(*words)
        assert done.code == 0 and "no policies are installed" in done.out, done
    needs_policies()
    admin.run(crew.url, admin.policies(crew.url))
    state = ann.server()
    assert (state.policies, state.unprotected, state.concerns()) == ("on", [], [])
    assert "Policies: enforced" in cortext("store", "status").out
    assert PostgresStore(crew.url).server().policies == "bypassed"
    crew.sql("ALTER TABLE cortext.notes DISABLE ROW LEVEL SECURITY")
    assert ann.server().unprotected == ["notes"] and "tables without policies: notes" in cortext("doctor").out
    admin.migrate(crew.url, report=lambda step: None)
    assert ann.server().unprotected == []
    for store in (ann, ben):
        store.close()


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TEAM-02")
def test_a_share_for_reading_allows_reading_and_nothing_else(crew: Team) -> None:
    name = new_space()
    ann = fill(crew, crew.ann, name, "maple")
    ben = crew.shared(crew.ben)
    with pytest.raises(SessionNotFound):
        ben.get(name)
    with pytest.raises(NotFound, match="no role 'nobody-here'"):
        ann.shares().share(name, "nobody-here")
    with pytest.raises(UsageError, match="already belongs"):
        ann.shares().share(name, crew.ann)
    assert not ann.shares().share(name, crew.ben).can_write
    assert [session.id for session in ben.listed()] == [name]
    assert [message.content for message in ben.read(name)] == ["about maple"]
    assert [hit.session.id for hit in ben.find("maple")] == [name]
    for change in (
        lambda: ben.append(name, Message(role=USER, content="no")),
        lambda: ben.update(name, Change(title="no")),
        lambda: ben.open(name).__enter__(),
        lambda: ben.delete(name),
        lambda: ben.repair(name),
        lambda: ben.rewrite(name, lambda record: record),
    ):
        with pytest.raises(NotShared):
            change()
    assert ann.shares().unshare(name) == [crew.ben]
    with pytest.raises(SessionNotFound):
        ben.get(name)
    assert ben.find("maple") == [] and list(ben.sessions()) == []
    did = [(entry.actor, entry.action, entry.grantee, entry.detail) for entry in ann.shares().audit(name)]
    assert did == [
        (crew.ann, "share", crew.ben, "read"),
        (crew.ben, "read", "", ""),
        (crew.ann, "unshare", crew.ben, ""),
    ]
    for store in (ann, ben):
        store.close()


@pytest.mark.req("TEAM-02")
def test_a_share_with_a_group_for_writing_continues_the_session_itself(crew: Team) -> None:
    name = new_space()
    ann = fill(crew, crew.ann, name, "birch")
    ann.shares().share(name, crew.group, write=True)
    outsider = crew.shared(crew.ben)
    with pytest.raises(SessionNotFound):
        outsider.append(name, Message(role=USER, content="not a member"))
    outsider.close()
    crew.sql(f"GRANT {crew.group} TO {crew.ben}")
    try:
        ben = crew.shared(crew.ben)
        ben.append(name, Message(role=ASSISTANT, content="from ben"))
        with ben.open(name) as writer:
            writer.append(Message(role=USER, content="held"))
            writer.update(Change(title="ours"))
        assert [message.content for message in ann.read(name)] == ["about birch", "from ben", "held"]
        assert ann.get(name).title == "ours" and ann.check(name) == []
        with pytest.raises(NotShared):
            ben.delete(name)
        with ann.open(name), pytest.raises(SessionBusy):
            crew.shared(crew.ben, lock_timeout=0.0).append(name, Message(role=USER, content="refused"))
        did = [(entry.actor, entry.action, entry.detail) for entry in ann.shares().audit(name)]
        one = "1 message"
        assert did[1:] == [(crew.ben, "append", one), (crew.ben, "append", one), (crew.ben, "update", "")]
        ben.close()
    finally:
        crew.sql(f"REVOKE {crew.group} FROM {crew.ben}")
    ann.close()


@pytest.mark.req("TEAM-02")
@pytest.mark.parametrize("kind", ["policies", "statements alone"])
def test_a_share_is_with_exactly_the_group_that_it_names(kind: str, team: Team, open_team: Team) -> None:
    """Names with capitals, dots, quotes or digits alone, and those of no role, whatever the server makes of them."""
    crew = team if kind == "policies" else open_team
    odd = f'Group."{crew.suffix}'
    quoted = '"' + odd.replace('"', '""') + '"'
    [(number,)] = crew.sql("SELECT oid::text FROM pg_roles WHERE rolname = %s", crew.ben)
    sessions = {new_space(): name for name in (odd, odd.lower(), quoted, number, "-", "public", crew.ben.upper(), "")}
    ann, ben = crew.store(crew.ann), crew.shared(crew.ben)
    for session_id, name in sessions.items():
        ann.create(Session(id=session_id))
        crew.sql(
            "INSERT INTO cortext.shares (session_id, life, grantee, shared_at) "
            "SELECT session_id, life, %s, '' FROM cortext.sessions WHERE session_id = %s",
            *(name, session_id),
            role=crew.ann,
        )
    crew.sql(f"CREATE ROLE {quoted} ROLE {crew.ben}")
    try:
        assert [sessions[session.id] for session in ben.listed() if session.id in sessions] == [odd]
        if crew is team:
            rows = crew.sql("SELECT session_id FROM cortext.sessions WHERE owner = %s", crew.ann, role=crew.ben)
            assert [sessions[name] for (name,) in rows if name in sessions] == [odd]
    finally:
        crew.sql(f"DROP ROLE {quoted}")
        ben.close()
        ann.close()


@pytest.mark.req("TEAM-02")
def test_who_may_write_a_shared_session_can_neither_take_nor_change_what_is_there(team: Team) -> None:
    """A share with --write lets somebody append and change the metadata, also with statements of their own."""
    name = new_space()
    ann = fill(team, team.ann, name, "cedar")
    ann.annotate(name, {"type": "comment", "message_id": "m", "text": "of ann"})
    ann.shares().share(name, team.ben, write=True)
    key = f"WHERE session_id = '{name}'"
    for column, value in (
        ("owner", team.ben),
        ("space", "chat"),
        ("session_id", "mine"),
        ("created_at", ""),
        ("deleted_at", "2026-01-01T00:00:00.000Z"),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            team.sql(f"UPDATE cortext.sessions SET {column} = %s {key}", value, role=team.ben)
    for statement in (
        f"UPDATE cortext.messages SET content = 'forged' {key} RETURNING 1",
        f"DELETE FROM cortext.messages {key} RETURNING 1",
        f"UPDATE cortext.notes SET record = '{{}}' {key} RETURNING 1",
    ):
        assert team.sql(statement, role=team.ben) == [], statement
    ben = team.shared(team.ben)
    ben.append(name, Message(role=ASSISTANT, content="allowed"))
    ben.update(name, Change(title="allowed"))
    ben.annotate(name, {"type": "embedding", "message_id": "m", "model": "m", "vector": [0.5, 0.5]})
    ben.annotate(name, {"type": "embedding", "message_id": "m", "model": "m", "vector": [0.5, 0.6]})
    assert [message.content for message in ann.read(name)] == ["about cedar", "allowed"]
    # What is in the trash of its owner is not shared.
    ann.delete(name)
    for table in ("sessions", "messages", "notes"):
        assert team.sql(f"SELECT 1 FROM cortext.{table} {key}", role=team.ben) == [], table
    for store in (ann, ben):
        store.close()


@pytest.mark.req("TEAM-02")
def test_a_writer_that_is_open_ends_with_its_share(crew: Team) -> None:
    ann, ben, at_once = crew.store(crew.ann), crew.shared(crew.ben), crew.store(crew.ann, lock_timeout=0.0)
    shares = ann.shares()
    ends: tuple[Callable[[str], object], ...] = (shares.unshare, lambda name: shares.share(name, crew.ben))
    for end in ends:
        name = new_space()
        fill(crew, crew.ann, name, "alder").close()
        shares.share(name, crew.ben, write=True)
        with ben.open(name) as writer:
            writer.append(Message(role=USER, content="while shared"))
            with pytest.raises(SessionBusy, match=rf" of {crew.ben} since"):
                at_once.append(name, Message(role=USER, content="too early"))
            end(name)
            at_once.append(name, Message(role=USER, content="of ann"))
            with pytest.raises((NotShared, SessionNotFound)):
                writer.append(Message(role=USER, content="too late"))
            with pytest.raises((NotShared, SessionNotFound)):
                writer.update(Change(title="too late"))
        shares.share(name, crew.ben, write=True)
        with ann.open(name) as own:
            shares.unshare(name)
            own.append(Message(role=USER, content="still open"))
        stored = [message.content for message in ann.read(name)]
        assert stored == ["about alder", "while shared", "of ann", "still open"]
        assert ann.get(name).title == "title alder"
    for store in (ann, ben, at_once):
        store.close()


@pytest.mark.req("TEAM-02")
def test_a_forged_or_stale_share_hides_no_real_one(open_team: Team) -> None:
    name = new_space()
    ann = fill(open_team, open_team.ann, name, "poplar")
    ann.shares().share(name, open_team.ben)
    forged = "INSERT INTO cortext.shares VALUES (%s, %s, %s, 'mallory', true, '')"
    open_team.sql(forged, name, 9 * 10**18, open_team.ben)
    ben = open_team.shared(open_team.ben)
    assert ben.get(name).title == "title poplar" and name in [session.id for session in ben.listed()]
    assert not ben.can_write(name)
    # Somebody else shared a session with the same id, and deleted it since.
    carol = open_team.store(open_team.ann, owner="carol")
    carol.create(Session(id=name, title="of carol"))
    carol.shares().share(name, open_team.ben)
    assert ben.get(name).title == "of carol"
    carol.delete(name)
    assert ben.get(name).title == "title poplar"
    ann.shares().unshare(name)
    for store in (ann, ben, carol):
        store.close()


@pytest.mark.req("TEAM-02")
def test_policies_replace_the_wider_grant_of_an_earlier_version() -> None:
    needs_policies()
    crew = Team(policies=False)
    crew.sql(f"GRANT UPDATE ON cortext.sessions TO {crew.users}")
    wide = "SELECT has_table_privilege(%s, 'cortext.sessions', 'UPDATE')"
    assert crew.sql(wide, crew.users) == [(True,)]
    admin.run(crew.url, admin.policies(crew.url))
    assert crew.sql(wide, crew.users) == [(False,)]
    store = crew.store(crew.ann)
    store.create(Session(id="talk"))
    store.append("talk", Message(role=USER, content="still works"))
    assert store.update("talk", Change(title="ours")).title == "ours"
    store.restore(store.delete("talk").key)
    store.close()
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'sessions'"
    assert {row[0] for row in crew.sql(columns)} - set(CHANGEABLE.split(", ")) == {
        "session_id",
        "life",
        "space",
        "owner",
        "created_at",
    }


@pytest.mark.req("TEAM-02")
def test_a_person_shares_a_session_and_another_continues_a_copy(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From start to end, as two people do it with the commands."""
    name = new_space()
    fill(team, team.ann, name, "juniper").close()
    homes = {role: tmp_path / role for role in (team.ann, team.ben)}
    for home in homes.values():
        home.mkdir()

    def run(role: str, *words: str, code: int = 0) -> Ran:
        done = cortext(*words, cwd=homes[role], env={"HOME": str(homes[role]), "CORTEXT_STORE": team.at(role)})
        assert done.code == code, done.err
        return done

    assert "juniper" not in run(team.ben, "list").out
    assert f"{team.ben} can read {name}" in run(team.ann, "share", name, "--with", team.ben).out
    rows = [row for row in run(team.ben, "list", "--json").json if row["id"] == name]
    assert [row["title"] for row in rows] == ["title juniper"]
    assert "about juniper" in run(team.ben, "search", "juniper").out
    received = run(team.ben, "share", "--json").json["received"]
    assert [(share["session_id"], share["owner"]) for share in received] == [(name, team.ann)]
    refused = run(team.ben, "title", name, "mine", code=1)
    assert "for reading only" in refused.err and f"cortext fork {name}" in refused.err
    copy = run(team.ben, "fork", name, "--json").json["id"]
    assert "about juniper" in run(team.ben, "show", copy).out
    run(team.ben, "title", copy, "my own copy")
    shown = run(team.ann, "share", name, "--json").json
    assert [entry["action"] for entry in shown["audit"]][:2] == ["share", "read"]
    assert ("fork", copy) in [(entry["action"], entry["detail"]) for entry in shown["audit"]]
    assert "no longer shared" in run(team.ann, "unshare", name, "--with", team.ben).out
    run(team.ann, "unshare", name, code=1)
    run(team.ben, "search", "juniper", "--workspace", "shared", code=1)
    assert "about juniper" in run(team.ben, "show", copy).out, "the copy stays"
    run(team.ann, "delete", name)
    kept = run(team.ann, "share", name, "--json").json["audit"]
    assert [{**entry, "deleted_at": ""} for entry in kept][: len(shown["audit"])] == shown["audit"]
    assert all(entry["deleted_at"] for entry in kept)
    assert f"{team.ben}  fork" in run(team.ann, "share", name).out
    assert "moved to the trash" in run(team.ann, "share", name).out
    assert "no conversation matches" in run(team.ben, "share", name, code=1).err, "an audit is its owner's"
    monkeypatch.setenv("HOME", str(homes[team.ann]))
    assert "only sessions on a server can be shared" in cortext("share").err


# ── isolation ────────────────────────────────────────────────────────────────────────────────────────

# Every command, as somebody would use it on sessions of others: by id, by number, by words.
USES: dict[str, tuple[str, ...]] = {
    "new": (),
    "resume": (
        "resume --list",
        "resume --list --limit 0 --json",
        "resume {id} --print",
        "resume {word} --print",
        "resume 1 --dry-run --ai claude",
        "resume --in-tool",
        "resume {word} --in-tool",
    ),
    "stop": ("stop {id}",),
    "complete": ("complete {id}",),
    "show": ("show {id}", "show 1", "show {word}"),
    "title": ("title {id}", "title {id} mine"),
    "fork": ("fork {id}", "fork {word}"),
    "prune": ("prune {id}",),
    "share": ("share", "share {id}", "share {id} --with {ben}"),
    "unshare": ("unshare {id}",),
    "export": ("export {id}", "export {id} --format json"),
    "delete": ("delete {id}",),
    "restore": ("restore", "restore {id}", "restore planted-39"),
    "list": ("list", "list --json", "list --all --type debug"),
    "search": ("search {word}", "search about {word} --json", "search summary title"),
    "similar": ("similar {id}",),
    "browse": (),
    "web": (),
    "tag": ("tag", "tag {id}", "tag {id} {ben}"),
    "star": ("star {id}",),
    "note": ("note {id}", "note {id} mine"),
    "archive": ("archive {id}",),
    "cost": ("cost --by session", "cost --by session --json"),
    "stats": ("stats", "stats --json"),
    "import": ("import",),
    "sync": ("sync",),
    "watch": (),
    "rescue": ("rescue",),
    "sweep": ("sweep",),
    "doctor": ("doctor", "doctor --json"),
    "store": ("store status", "store status --json", "store copy server chat:copied"),
    "repair": ("repair {id}",),
    "index": ("index",),
    "why": ("why {word}", "why --commit HEAD"),
    "touched": ("touched {word}",),
    "status": ("status",),
    "complete-words": ("complete-words -- cortext show ''",),
}
WITHOUT_SESSIONS = {"init", "upgrade", "uninstall", "type", "trust", "completion", "mcp", "tools", "demo"}
CALLS: dict[str, dict[str, object]] = {
    "search_workspace": {"query": "{word}"},
    "get_context": {"topic": "{word}"},
    "get_decision_history": {"topic": "{word}"},
    "list_sessions": {},
    "get_session": {"id": "{id}"},
    "resume_session": {"id": "{id}"},
    "save_session": {},
    "search_sessions": {"query": "{word}"},
    "why_line": {"file": "{word}"},
    "touched_file": {"file": "{word}"},
}


@cache
def planted(crew: Team) -> list[str]:
    """Plant a thousand words of Ann's once: in titles, summaries, messages, facts and chats."""
    chance = random.Random(1000)
    made = ["q" + "".join(chance.choices("bcdfghjklmnpqrstvwxz", k=9)) for _ in range(1000)]
    for number in range(40):
        mine = made[number * 24 : number * 24 + 24]
        space = ("home", "chat", "spawn")[number % 3]
        store = crew.store(crew.ann, space)
        store.create(Session(id=f"planted-{number}", title=mine[0], summary=mine[1], type="debug"))
        store.append(f"planted-{number}", *(Message(role=USER, content=f"decided {word}") for word in mine[2:]))
        store.close()
    store = crew.store(crew.ann, "chat")
    for word in made[960:]:
        store.facts().add(Fact(id="", text=f"remember {word}"))
    store.chats().activate("cli", "planted-1")
    store.close()
    store = crew.store(crew.ann, "home")
    store.delete("planted-39")
    store.close()
    return made


@pytest.mark.req("TEAM-01")
def test_a_thousand_planted_words_do_not_cross(
    crew: Team,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from cortext.faces.cortext import main
    from cortext.faces.mcp import tools
    from cortext.faces.mcp.context import Context

    words = planted(crew)
    monkeypatch.setenv("CORTEXT_STORE", crew.at(crew.ben))
    monkeypatch.chdir(tmp_path)
    own = crew.store(crew.ben)
    if not own.listed():
        own.create(Session(id="mine", title="my own"))
        own.append("mine", Message(role=USER, content="my own words"))
    names = {"word": words[2], "id": "planted-0", "ben": crew.ben}
    said = []
    for lines in USES.values():
        for line in lines:
            main.run([word.format(**names) for word in line.split()])
            said.append("".join(capsys.readouterr()))
    assert "my own" in said[0] + "".join(said), "nothing was printed at all"
    context = Context(str(tmp_path), lambda: None)
    for tool, arguments in (*CALLS.items(), ("resume_session", {})):
        given = {name: str(value).format(**names) for name, value in arguments.items()}
        try:
            answer = tools.call(context, tool, given)
            said.append(f"{answer}")
        except CortextError as error:
            said.append(f"{error.message} {error.hint}")
    output = "\n".join(said).lower()
    asked = {words[2]}  # repeated in "no conversation matches …"
    assert [word for word in words if word in output and word not in asked] == []
    own.close()


def test_every_command_and_tool_is_part_of_the_isolation_test() -> None:
    commands = {name for _, group in COMMANDS for name, _, _ in group} | {"complete-words"}
    assert commands - set(USES) - WITHOUT_SESSIONS == set()
    assert set(USES) - commands <= set(HIDDEN) | {"status"}
    assert set(CALLS) == set(SPECS)


# Every slash command of the assistant, as somebody would use it on the phone to reach what belongs to another.
PHONE: dict[str, tuple[str, ...]] = {
    "new": ("/new mine",),
    "resume": ("/resume", "/resume planted-1", "/resume 1", "/resume {word}"),
    "sessions": ("/sessions", "/sessions all", "/sessions shared"),
    "session": ("/session",),
    "retry": ("/retry x",),
    "continue": ("/continue x",),
    "search": ("/search {word}", "/search decided", "/search remember"),
    "title": ("/title",),
    "context": ("/context",),
    "compact": ("/compact",),
    "memory": ("/memory", "/memory remember", "/memory {fact}"),
    "remember": ("/remember my own fact",),
    "forget": ("/forget 1", "/forget {fact}"),
    "export": ("/export",),
    "delete": ("/delete planted-1", "/delete planted-39"),
    "restore": ("/restore", "/restore planted-39"),
    "help": ("/help",),
}
SPAWN = (
    "spawn --list-sessions",
    "spawn --list-sessions --json",
    "spawn hello --resume planted-2",
    "spawn hello --resume 1",
    "spawn --delete-session planted-2 --yes",
    "spawn --restore",
    "spawn --restore planted-2",
    "spawn --clean-sessions 0 --yes",
)


@pytest.mark.req("TEAM-01")
def test_the_assistants_of_one_person_know_nothing_of_another(
    crew: Team,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`alfred` with every slash command, and `aur`: neither the answers nor what the model receives has a word."""
    words = planted(crew)
    names = {"word": words[26], "fact": words[960]}
    assert {command.name for command in ALFRED} == set(PHONE)
    said = []
    with Parrot() as model:
        for name, value in environment(home, model).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("CORTEXT_STORE", crew.at(crew.ben))
        monkeypatch.chdir(home)
        desk = Desk(home)
        assert desk.say("hello") == "Answer to hello"
        assert desk.assistant.sessions.active("cli") != "planted-1"
        for line in (line.format(**names) for lines in PHONE.values() for line in lines):
            try:
                said.append(str(desk.do(line)))
            except CortextError as error:
                said.append(f"{error.message} {error.hint}")
        assert any("my own fact" in text for text in said) and desk.say("what do you know?")
        for line in SPAWN:
            aur.run(line.split())
            said.append("".join(capsys.readouterr()))
        said += [str(request.body) for request in model.turns]
    output = "\n".join(said).lower()
    assert [word for word in words if word in output and word not in names.values()] == []
    assert is_untouched(crew)


@pytest.mark.req("TEAM-01")
def test_the_page_of_one_person_shows_nothing_of_another(crew: Team, home: Path) -> None:
    words = planted(crew)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "CORTEXT_STORE": crew.at(crew.ben)}
    own = crew.store(crew.ben)
    if "mine" not in [session.id for session in own.listed()]:
        own.create(Session(id="mine", title="my own"))
        own.append("mine", Message(role=USER, content="my own words"))
    roots = [crew.store(crew.ben, space).root for space in ("home", "chat", "spawn", "shared")]
    session_pages = ("", "/messages", "/m/0", "/export", "/continue")
    paths = ["/", "/results", "/see", "/see/costs", f"/?q={words[2]}", "/results?q=decided", "/?type=debug"]
    paths += [
        f"/c/{store_key(root)}/planted-{number}{rest}"
        for root in roots
        for number in (0, 1, 2, 39)
        for rest in session_pages
    ]
    with serving(env, home) as served:
        served.open()
        replies = {path: served.get(path) for path in paths}
        assert "my own" in replies["/"].text, "nothing was shown at all"
        for root in roots:
            for action in ("delete", "title", "tag", "star", "archive", "note", "fork"):
                reply = served.post(f"/c/{store_key(root)}/planted-1/{action}", {"title": "x", "text": "x", "tag": "x"})
                replies[f"{root} {action}"] = reply
        reply = served.post("/restore", {"key": "planted-39"})
    output = "\n".join([*(each.text for each in replies.values()), reply.text]).lower()
    assert [word for word in words if word in output and word != words[2]] == []
    assert {replies[path].status for path in paths if path.startswith("/c/")} == {404}
    assert is_untouched(crew)
    own.close()


def is_untouched(crew: Team) -> bool:
    """Whether everything that was planted is as it was."""
    planted = "SELECT session_id, deleted_at IS NULL, message_count FROM cortext.sessions WHERE owner = %s"
    rows = [row for row in crew.sql(planted, crew.ann) if row[0].startswith("planted-")]
    known = "SELECT record FROM cortext.facts WHERE owner = %s AND forgotten_at IS NULL"
    facts = [row for row in crew.sql(known, crew.ann) if "remember q" in row[0]]
    deleted = [name for name, is_live, _ in rows if not is_live]
    return len(rows) == 40 and deleted == ["planted-39"] and {row[2] for row in rows} == {22} and len(facts) == 40


# ── the schema behind it ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TEAM-01")
def test_every_table_that_the_promise_names_has_an_owner() -> None:
    needs_vectors()
    store = PostgresStore(shared().database())
    store.create(Session(id="talk"))
    query = "SELECT table_name FROM information_schema.columns WHERE table_schema = 'cortext' AND column_name = 'owner'"
    owned = {row[0] for row in store.connections.query(query)}
    assert owned >= set(schema.OWNED)
    store.close()


@pytest.mark.req("TEAM-01")
def test_policies_need_owners() -> None:
    with pytest.raises(ConfigError, match="no owners yet"):
        admin.policies(shared().database())


@pytest.mark.req("TEAM-01")
def test_the_manual_says_how_policies_and_the_index_of_words_work_together() -> None:
    team = Team(policies=True)
    if team.sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") != [(True,)]:
        pytest.skip("only a superuser can declare it")  # of a server that somebody else runs
    (statement,) = re.findall(r"^ALTER FUNCTION .*;$", PAGE.read_text("utf-8"), re.MULTILINE)
    ann = fill(team, team.ann, "talk", "heron")
    query = b"SELECT session_id FROM cortext.messages WHERE words @@ plainto_tsquery('simple', 'heron')"

    def plan() -> str:
        with psycopg.connect(team.at(team.ben)) as connection:
            connection.execute(b"SET enable_seqscan = off")
            assert connection.execute(query).fetchall() == [], "they hide the rows of others either way"
            return str(connection.execute(b"EXPLAIN " + query).fetchall())

    assert "messages_words" not in plan()
    team.sql(statement)
    assert "messages_words" in plan()
    assert [hit.message.content for hit in ann.find("heron")] == ["about heron"]
    ann.close()


@pytest.mark.req("TEAM-02")
def test_what_is_shared_reaches_ai_tools_and_the_phone(
    team: Team, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cortext.faces.mcp import tools
    from cortext.faces.mcp.context import Context
    from cortext.services.workspace.creating import session_to_continue
    from cortext.wiring.stores import SHARED, Stores

    name = new_space()
    ann = fill(team, team.ann, name, "rowantree")
    ann.shares().share(name, team.ben)
    monkeypatch.setenv("CORTEXT_STORE", team.at(team.ben))
    context = Context(str(tmp_path), lambda: None)
    calls: list[tuple[str, dict[str, object]]] = [
        ("list_sessions", {}),
        ("search_sessions", {"query": "rowantree"}),
        ("get_session", {"id": name}),
        ("resume_session", {"id": name}),
    ]
    for tool, arguments in calls:
        assert name in str(tools.call(context, tool, arguments)), tool
    stores = Stores(str(tmp_path))
    found = next(each for each in stores.all() if each.kind == SHARED)
    copy = session_to_continue(StoredConversation(found, found.store.get(name)), stores.home_store())
    assert copy.named_store.kind == "home" and copy.session.extra["forked_from"]["session"] == name
    ann.shares().share(name, team.ben, write=True)
    assert session_to_continue(StoredConversation(found, found.store.get(name)), stores.home_store()).session.id == name
    ann.shares().share(name, team.ben)
    with Parrot() as model:
        for variable, value in environment(home, model).items():
            monkeypatch.setenv(variable, value)
        desk = Desk(home)
        assert [row[0] for row in desk.do("/sessions shared").rows] == [name]
        assert name not in str(desk.do("/sessions")), "the list of one's own"
        assert f"It continues {name}" in str(desk.do(f"/resume {name}"))
        desk.say("and now?")
        assert "about rowantree" in str(model.turns[-1].body)
    assert [message.content for message in ann.read(name)] == ["about rowantree"], "the original is unchanged"
    actions = {entry.action for entry in ann.shares().audit(name)}
    assert actions == {"share", "read", "fork"}
    ann.shares().unshare(name)
    ann.close()
