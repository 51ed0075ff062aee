-- Search by meaning on servers with the extension pgvector. Not numbered: the extension may be installed at any time.

CREATE TABLE IF NOT EXISTS cortext.vectors (
    session_id text NOT NULL,
    life bigint NOT NULL,
    id text NOT NULL,
    model text NOT NULL,
    vector vector NOT NULL,
    owner text NOT NULL DEFAULT CURRENT_USER,
    PRIMARY KEY (session_id, life, id, model)
);
