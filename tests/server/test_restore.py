"""The restore drill of docs/operations.md: the very commands of that page, run on a copy of a team's database."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import msgspec
import psycopg
import pytest

from cortext.model.message import Message
from cortext.model.session import Session
from cortext.server.store import PostgresStore
from cortext.store.assistant import Fact
from tests.server.team import Team
from tests.support.cli import SCRIPTS
from tests.support.postgres import Postgres, needs_vectors, shared

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def drill() -> str:
    """Return the commands of the page."""
    found = re.search(r"<!-- drill -->\n```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def digest(store: PostgresStore) -> dict[str, str]:
    """Return a hash of every session with its messages and records."""
    found = {}
    for session in store.sessions():
        parts = [msgspec.json.encode(message) for message in store.read(session.id)]
        parts += [msgspec.json.encode(record) for record in store.annotations(session.id)]
        found[session.id] = hashlib.sha256(b"\n".join([session.title.encode(), *parts])).hexdigest()
    return found


@pytest.mark.req("TEAM-03")
def test_the_restore_drill_of_the_manual_brings_back_every_session(tmp_path: Path) -> None:
    server = shared()
    if not isinstance(server, Postgres) or not hasattr(server, "programs"):
        pytest.skip("the programs of a server of somebody else are not here")
    team = Team(policies=True)
    expected = {}
    for role in (team.ann, team.ben):
        store = team.store(role)
        for number in range(3):
            store.create(Session(id=f"talk-{number}", title=f"of {role}"))
            texts = [f"message {index} \N{GREEK SMALL LETTER ALPHA} 'quoted' \\ of {role}" for index in range(20)]
            store.append(f"talk-{number}", *(Message(role="user", content=text) for text in texts))
        store.annotate("talk-0", {"type": "note", "message_id": "x", "n": 1})
        store.facts().add(Fact(id="", text=f"fact of {role}"))
        store.shares().share("talk-1", team.ben if role == team.ann else team.ann)
        expected[role] = digest(store)
        store.close()
    env = {
        "PATH": f"{server.programs}{os.pathsep}{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ADMIN": team.url,
        "DRILL": re.sub(r"/[^/]*$", "/drill", team.url),
    }
    done = subprocess.run(
        ["sh", "-eu", "-c", drill()], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "No problems found" in done.stdout
    for role, wanted in expected.items():
        store = PostgresStore(re.sub(r"/[^/]*$", "/drill", team.at(role)))
        assert digest(store) == wanted and len(wanted) == 3
        assert [fact.text for fact in store.facts().all()] == [f"fact of {role}"]
        assert len(store.shares().received()) == 1
        assert store.connections.query("SELECT count(*) FROM pg_policies WHERE schemaname = 'cortext'")[0][0] > 10
        store.close()
    # Negative control: the comparison notices a single changed letter.
    with_change = PostgresStore(re.sub(r"/[^/]*$", "/drill", team.at(team.ann)))
    with_change.rewrite("talk-2", lambda record: {**record, "content": str(record["content"]).replace("19", "18")})
    assert digest(with_change) != expected[team.ann]
    with_change.close()


def statements(heading: str) -> list[str]:
    """Return the SQL statements of a section of the page."""
    section = PAGE.read_text(encoding="utf-8").partition(f"### {heading}")[2].partition("\n### ")[0]
    found = re.search(r"```sql\n(.*?)```", section, re.DOTALL)
    assert found is not None
    lines = [line for line in found[1].splitlines() if not line.startswith("--")]
    return [statement for statement in "\n".join(lines).split(";\n") if statement.strip()]


@pytest.mark.req("TEAM-03")
def test_the_queries_of_the_manual_run_and_remove_only_what_is_old_in_the_trash() -> None:
    needs_vectors()
    team = Team(policies=not shared().is_citus)
    ann = team.store(team.ann)
    for name in ("kept", "new in the trash", "old in the trash"):
        name = name.replace(" ", "-")
        ann.create(Session(id=name))
        ann.append(name, Message(role="user", content="hello"))
        ann.annotate(name, {"type": "embedding", "message_id": "m", "model": "m", "vector": [0.5, 0.5]})
        ann.shares().share(name, team.ben)
        if name != "kept":
            ann.delete(name)
    team.sql("UPDATE cortext.sessions SET deleted_at = '2024-01-01' WHERE session_id = 'old-in-the-trash'")
    with psycopg.connect(team.url, autocommit=True) as connection:
        for statement in [*statements("Monitoring"), *statements("Retention")]:
            connection.execute(statement.encode())
    for table in ("sessions", "messages", "notes", "vectors", "shares", "audit"):
        rows = team.sql(f"SELECT DISTINCT session_id FROM cortext.{table} ORDER BY 1")
        assert rows == [("kept",), ("new-in-the-trash",)], table
    ann.close()
