"""Storage of sessions: append-only logs of messages with small metadata. `base` is the protocol of every backend,
`capabilities` and `server_capabilities` hold what only some backends support, `files` is the backend of the core; the
one for PostgreSQL is the room `server`. Nothing here derives data from the messages (that is `index` and `services`),
and only `wiring` names a concrete backend.
"""
