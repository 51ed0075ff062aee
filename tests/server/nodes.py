"""The nodes of a Citus cluster, as seen by the tests: reached through proxies that can cut their connections."""

from __future__ import annotations

import psycopg

from tests.server.proxy import Proxy

_NODE_OF = """
SELECT n.nodeport FROM pg_dist_placement p JOIN pg_dist_node n USING (groupid)
WHERE p.shardid = get_shard_id_for_distribution_column('cortext.sessions', %s::text)
"""


def through_proxies(url: str) -> dict[int, Proxy]:
    """Put a proxy between the coordinator and each node of this database; return them by the port of their node."""
    proxies: dict[int, Proxy] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute(b"SELECT to_regclass('pg_dist_node')").fetchone() == (None,):
            return proxies  # no Citus
        query = b"SELECT nodeid, nodename, nodeport FROM pg_dist_node WHERE groupid <> 0"
        for node, host, port in connection.execute(query).fetchall():
            proxy = Proxy(port, host)
            connection.execute(b"SELECT citus_update_node(%s, '127.0.0.1', %s)", (node, proxy.port))
            proxies[proxy.port] = proxy
        connection.execute(b"SELECT start_metadata_sync_to_all_nodes()")  # the nodes know each other, too
    return proxies


def node_of(url: str, session_id: str) -> int:
    """Return the port of the node that has a session."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_NODE_OF.encode(), (session_id,)).fetchone()
        assert row is not None
        return int(row[0])
