"""Upgrades that nobody notices: an administrator migrates, and two releases work side by side."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import psycopg
import pytest

from cortext.errors import ConfigError
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.server import admin, connection
from cortext.server import schema as postgres_schema
from cortext.server.store import PostgresStore
from tests.server.previous import COMMIT, VERSION_7, Previous, previous_release
from tests.server.team import Team
from tests.support.cli import cortext
from tests.support.postgres import PASSWORD, as_role, needs_policies, needs_vectors, new_space, shared


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("previous"), COMMIT)


@pytest.fixture(scope="module")
def package_7(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("version-7"), VERSION_7)


def unpacked(folder: Path, commit: str) -> Path:
    found = previous_release(folder, commit)
    if found is None:
        assert not os.environ.get("CI"), "CI must fetch the history: these tests may not be left out there"
        pytest.skip("this copy of the repository has no history")
    return found


@pytest.mark.req("TEAM-03")
def test_the_release_before_and_this_one_work_side_by_side(package: Path) -> None:
    url = shared().database()
    with Previous(package, url, "chat") as old:
        assert old("create", "before") == "before" and old("append", "before", "walnut") == "0"
        # This release changes no table by itself, and says what to do.
        with pytest.raises(ConfigError, match=r"have version 5, this cortext needs 6") as caught:
            PostgresStore(url, "chat").get("before")
        assert "cortext store migrate" in caught.value.hint
        done = cortext("store", "migrate", url)
        assert done.code == 0 and "cortext store migrate --finish" in done.out, done
        # The process of the release before, which knows nothing of this, continues.
        assert old("append", "before", "hazel") == "1"
        assert old("create", "during") == "during" and old("append", "during", "maple") == "0"
        new = PostgresStore(url, "chat")
        assert sorted(session.id for session in new.listed()) == ["before", "during"]
        assert [message.content for message in new.read("before")] == ["walnut", "hazel"]
        assert sorted(row[0] for row in new.chores().due("embed")) == ["before", "during"]
        assert {hit.message.content for hit in new.find("maple hazel")} == {"maple", "hazel"}
        new.create(Session(id="after"))
        new.append("after", Message(role="user", content="birch"))
        new.append("during", Message(role="user", content="together"))
        assert old("list") == "after before during" and old("find", "birch") == "birch"
        assert old("due") == "after before during" and old("append", "during", "again") == "2"
        with Previous(package, url, "chat") as started_later:
            assert started_later("list") == "after before during"
    assert cortext("store", "migrate", url, "--finish").code == 0
    with Previous(package, url, "chat") as too_old:
        assert too_old("list").startswith("error: ") and "newer cortext" in too_old("list")
    new.append("during", Message(role="user", content="finished"))
    assert [message.content for message in new.read("during")] == ["maple", "together", "again", "finished"]
    assert new.check("during") == [] and new.server().schema == max(postgres_schema.migrations())
    new.close()


@pytest.mark.req("TEAM-03")
def test_a_build_before_the_owners_of_shares_works_until_the_migration_is_finished(package_7: Path) -> None:
    url = shared().database()
    with psycopg.connect(url, autocommit=True) as connected:
        for name in ("ann", "ben"):
            connected.execute(
                f"DO $$BEGIN CREATE ROLE {name}; EXCEPTION WHEN duplicate_object THEN NULL; END$$".encode()
            )
    with Previous(package_7, url, "home") as old:
        assert old("create", "talk") == "talk" and old("share", "talk", "ann") == "ann"
        # Its tables serve this one too: both share, and see what the other shared.
        new = PostgresStore(url)
        assert new.shares().share("talk", "ben", write=True).can_write
        assert not new.shares().share("talk", "ben").can_write
        assert new.shares().unshare("talk", "ann") == ["ann"] and old("share", "talk", "ann") == "ann"
        done = cortext("store", "migrate", url)
        assert done.code == 0 and "cortext store migrate --finish" in done.out, done
        assert old("share", "talk", "ann") == "ann"
        with psycopg.connect(url, autocommit=True) as connected:
            connected.execute("UPDATE cortext.shares SET owner = 'eve' WHERE grantee = 'ann'")
        with pytest.raises(ConfigError, match="another owner has a share") as caught:
            new.shares().share("talk", "ann")
        assert "cortext store migrate --finish" in caught.value.hint
        done = cortext("store", "migrate", url, "--finish")
        assert done.code == 0 and "--finish" not in done.out, done
        assert old("share", "talk", "ann").startswith("error: "), "it stores nothing under a key that is gone"
    assert new.shares().share("talk", "ann").owner == new.scope.owner
    with Previous(package_7, url, "home") as too_old:
        assert "newer cortext" in too_old("list")
    fresh = shared().database()
    PostgresStore(fresh).create(Session(id="talk"))
    assert shape(url) == shape(fresh)
    new.close()


@pytest.mark.req("TEAM-03")
def test_migrated_tables_equal_those_of_an_empty_database(package: Path) -> None:
    old, fresh = shared().database(), shared().database()
    with Previous(package, old, "chat") as release:
        release("create", "talk")
    admin.migrate(old, finish=True, report=lambda step: None)
    PostgresStore(fresh).create(Session(id="talk"))
    assert shape(old) == shape(fresh)


def shape(url: str) -> dict[str, set[tuple[object, ...]]]:
    """Return the columns and indexes of our tables."""
    with psycopg.connect(url) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable, column_default, generation_expression "
            "FROM information_schema.columns WHERE table_schema = 'cortext'"
        ).fetchall()
        indexes = connection.execute(
            "SELECT tablename, indexname, replace(indexdef, 'public.', '') FROM pg_indexes WHERE schemaname = 'cortext'"
        ).fetchall()
    return {"columns": set(columns), "indexes": set(indexes)}


@pytest.mark.req("TEAM-03")
def test_an_interrupted_migration_is_continued(package: Path) -> None:
    url = shared().database()
    with Previous(package, url, "home") as release:
        release("create", "talk")
        release("append", "talk", "walnut")
    number = 0
    while number < len(admin.pending(url, finish=True)):
        seen = 0

        def stop_at(step: postgres_schema.Step, last: int = number) -> None:
            nonlocal seen
            seen += 1
            if seen > last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            admin.migrate(url, owner="ann", finish=True, report=stop_at)
        number += 7
    assert number > 30
    admin.migrate(url, owner="ann", finish=True, report=lambda step: None)
    store = PostgresStore(url, owner="ann")
    assert [message.content for message in store.read("talk")] == ["walnut"]
    assert admin.pending(url, finish=True) == []
    store.close()


def tables_of_version(number: int) -> str:
    """Return the URL of a new database with the tables as this migration left them."""
    url = shared().database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA cortext")
        connection.execute("CREATE TABLE cortext.schema_version (one boolean PRIMARY KEY, version bigint NOT NULL)")
        connection.execute("INSERT INTO cortext.schema_version VALUES (true, %s)", (min(number, 5),))
        for migration, path in postgres_schema.migrations().items():
            for statement in postgres_schema.statements(path) if migration <= number else []:
                connection.execute(statement.encode())
        if number > 5:
            connection.execute("UPDATE cortext.schema_version SET applied = %s", (number,))
    return url


def has_owners(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    query = "SELECT 1 FROM information_schema.columns WHERE table_name = 'sessions' AND column_name = 'owner'"
    return connection.execute(query).fetchone() is not None


def valid_indexes(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        query = "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indisvalid"
        return {row[0] for row in connection.execute(query)}


@pytest.mark.req("TEAM-03")
def test_a_migration_waits_for_a_long_reader_and_then_has_all_its_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump reads for longer than a change of a table may wait; CREATE INDEX CONCURRENTLY waits for it."""
    monkeypatch.setattr(postgres_schema, "_LOCK_SECONDS", 0.1)
    url = tables_of_version(5)
    migrating = threading.Thread(target=admin.migrate, args=(url,), kwargs={"report": lambda step: None}, daemon=True)
    waited = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'CREATE%%INDEX%%' "
        "AND wait_event_type = 'Lock' AND now() - query_start > interval '1 second'"
    )
    with psycopg.connect(url) as reader, psycopg.connect(url, autocommit=True) as watcher:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM pg_class")
        migrating.start()
        deadline = time.monotonic() + 60
        while migrating.is_alive() and watcher.execute(waited).fetchone() == (0,):
            assert time.monotonic() < deadline
            migrating.join(0.05)
    migrating.join(60)
    created = ("sessions_live", "sessions", "chats", "claims", "facts", "facts_known")
    assert {f"{name}_of_owner" for name in created} <= valid_indexes(url)
    assert admin.pending(url, finish=False) == []


@pytest.mark.req("TEAM-03")
def test_an_index_that_is_missing_is_built_before_its_predecessor_is_dropped() -> None:
    url = tables_of_version(6)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP INDEX cortext.chats_of_owner")
        connection.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'cortext.claims_of_owner'::regclass"
        )
    assert [step.migration for step in admin.pending(url, finish=False)] == [6, 6]
    admin.migrate(url, finish=True, report=lambda step: None)
    assert {"chats_of_owner", "claims_of_owner"} <= valid_indexes(url)


@pytest.mark.req("TEAM-03")
def test_rows_get_their_owner_in_batches_that_wait_for_a_row_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_schema, "_BATCH", 3)
    monkeypatch.setattr(postgres_schema, "_LOCK_SECONDS", 0.1)
    url = tables_of_version(5)
    owned = "SELECT count(*) FROM cortext.sessions WHERE owner = 'ann'"
    with psycopg.connect(url) as writer, psycopg.connect(url, autocommit=True) as watcher:
        watcher.execute(
            "INSERT INTO cortext.sessions (session_id, life, space, created_at, last_active, record, type, title, "
            "status, agent, tool, summary) "
            "SELECT 's' || n, n, 'home', '', '', '{}', '', '', '', '', '', '' FROM generate_series(1, 8) n"
        )
        watcher.execute("INSERT INTO cortext.chats (chat, space, session_id) VALUES ('cli', 'chat', 's1')")

        def report(step: postgres_schema.Step) -> None:
            if "cortext.audit" in step.statement:  # the last one
                writer.execute("UPDATE cortext.sessions SET title = 'busy' WHERE session_id = 's8'")

        options = {"owner": "ann", "report": report}
        migrating = threading.Thread(target=admin.migrate, args=(url,), kwargs=options, daemon=True)
        migrating.start()
        deadline = time.monotonic() + 60
        while not has_owners(watcher) or watcher.execute(owned).fetchone() != (6,):
            assert time.monotonic() < deadline and migrating.is_alive()
    migrating.join(60)
    store = PostgresStore(url, owner="ann")
    assert len(store.listed()) == 8 and store.get("s8").id == "s8"
    assert PostgresStore(url, "chat", owner="ann").chats().active("cli") == "s1"
    store.close()


@pytest.mark.req("TEAM-03")
def test_a_running_process_notices_that_the_tables_became_too_new(monkeypatch: pytest.MonkeyPatch) -> None:
    url = shared().database()
    store = PostgresStore(url)
    store.create(Session(id="talk"))
    monkeypatch.setattr(connection, "_CHECK_SECONDS", 0.0)
    store.append("talk", Message(role="user", content="before"))
    with psycopg.connect(url, autocommit=True) as admin_connection:
        admin_connection.execute("UPDATE cortext.schema_version SET version = 9999, applied = 9999")
    with pytest.raises(ConfigError, match="newer cortext"):
        store.append("talk", Message(role="user", content="after"))
    store.close()


@pytest.mark.req("TEAM-03")
def test_a_role_without_privileges_is_told_who_must_migrate() -> None:
    url = shared().database()
    role = f"r{new_space()}"
    with psycopg.connect(url, autocommit=True) as connected:
        connected.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'".encode())
    with pytest.raises(ConfigError, match="may not create them") as caught:
        PostgresStore(as_role(url, role)).get("talk")
    assert "cortext store migrate" in caught.value.hint


@pytest.mark.req("TEAM-03")
def test_an_extension_that_the_administrator_cannot_find_is_reported() -> None:
    needs_vectors()
    url, role = shared().database(), f"r{new_space()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'".encode())
        connection.execute(f"GRANT CREATE ON DATABASE {url.rpartition('/')[2]} TO {role}".encode())
        connection.execute(f"CREATE SCHEMA cortext AUTHORIZATION {role}".encode())
        connection.execute(b"CREATE EXTENSION vector WITH SCHEMA cortext")
        for _ in range(2):  # the first creates the tables
            with pytest.raises(ConfigError, match="pgvector is installed in the schema `cortext`"):
                admin.migrate(as_role(url, role), report=lambda step: None)
        connection.execute(b"ALTER EXTENSION vector SET SCHEMA public")
        admin.migrate(as_role(url, role), report=lambda step: None)
        assert connection.execute(b"SELECT to_regclass('cortext.vectors') IS NOT NULL").fetchone() == (True,)


@pytest.mark.req("TEAM-03")
def test_an_administrator_sets_up_a_team_with_two_commands() -> None:
    team = Team.__new__(Team)
    team.url, role = shared().database(), f"r{new_space()}"
    team.sql(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    planned = cortext("store", "migrate", team.url, "--dry-run", "--json")
    assert planned.code == 0 and planned.json["dry_run"] is True
    planned = cortext("store", "migrate", team.url, "--grant", role, "--dry-run")
    assert team.sql("SELECT to_regnamespace('cortext')") == [(None,)]
    done = cortext("store", "migrate", team.url, "--grant", role)
    for statement in ("CREATE TABLE IF NOT EXISTS cortext.sessions", "GRANT SELECT, INSERT ON cortext.audit"):
        assert done.code == 0 and statement in done.out and statement in planned.out, statement
    needs_policies()
    shown = cortext("store", "policies", team.url)
    assert "CREATE POLICY cortext_own ON cortext.sessions" in shown.out
    assert team.sql("SELECT count(*) FROM pg_policies WHERE schemaname = 'cortext'") == [(0,)]
    assert cortext("store", "policies", team.url, "--apply").code == 0
    assert cortext("store", "policies", team.url, "--apply").code == 0, "it can be repeated"
    store = team.store(role)
    store.create(Session(id="talk"))
    assert team.sql("SELECT owner FROM cortext.sessions") == [(role,)]
    assert team.sql("SELECT relname FROM pg_class WHERE relrowsecurity") != []
    assert cortext("store", "policies", team.url, "--remove", "--apply").code == 0
    assert team.sql("SELECT count(*) FROM pg_policies WHERE schemaname = 'cortext'") == [(0,)]
    refused = cortext("store", "migrate", env={"CORTEXT_STORE": "files"})
    assert refused.code == 2 and "no server is configured" in refused.err
    store.close()
