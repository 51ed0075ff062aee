"""Storage of sessions: append-only logs of messages with small metadata. `base` is the protocol of every backend,
`capabilities` holds what only some backends support, `files` and `postgres` are the backends. Nothing here derives data
from the messages (that is `index` and `services`), and only `wiring` names a concrete backend.
"""
