-- Search by meaning on the server, where the extension pgvector is. Not numbered: a server may get it at any time.

CREATE TABLE IF NOT EXISTS cortext.vectors (
    session_id text NOT NULL,
    life bigint NOT NULL,
    id text NOT NULL,
    model text NOT NULL,
    vector vector NOT NULL,
    PRIMARY KEY (session_id, life, id, model)
);
