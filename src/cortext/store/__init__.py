"""Where conversations are kept: append-only logs of messages with small metadata. `base` is the protocol of every
backend, `capabilities` what only some can do, `files` and `postgres` the backends. Nothing here derives anything from
the messages (that is `index` and `services`), and only `wiring` names a concrete backend.
"""
