-- Sessions, their messages, and records about messages.
--
-- Every key begins with the session's id and every statement names it, so that engines that spread rows over many
-- machines find all of a session on one of them. There is no sequence, no table lock, no trigger and no foreign key.

CREATE TABLE IF NOT EXISTS cortext.sessions (
    session_id text NOT NULL,
    -- An id can be used again while an older session of that name is in the trash: each has a life of its own.
    life bigint NOT NULL,
    -- Whose session it is: home, spawn or chat.
    space text NOT NULL,
    deleted_at text,
    -- The metadata exactly as it is, as JSON. The six after it repeat what is filtered and searched by.
    record text NOT NULL,
    type text NOT NULL,
    title text NOT NULL,
    status text NOT NULL,
    agent text NOT NULL,
    tool text NOT NULL,
    summary text NOT NULL,
    created_at text NOT NULL,
    -- The end of the log. None of these is in an index: an append then changes one row in place.
    last_active text NOT NULL,
    next_seq bigint NOT NULL DEFAULT 0,
    message_count bigint NOT NULL DEFAULT 0,
    token_count bigint NOT NULL DEFAULT 0,
    straight boolean NOT NULL DEFAULT true,
    archived_before bigint NOT NULL DEFAULT 0,
    -- The embedding of the summary, and the summary that it belongs to.
    summary_vector text,
    next_note bigint NOT NULL DEFAULT 0,
    -- The lease: who writes, until when, and a number that goes up whenever that changes hands.
    fence bigint NOT NULL DEFAULT 0,
    holder text,
    token text,
    held_since text,
    held_until timestamptz,
    -- Lists are ordered by the hour first: that is what the index has, and it seldom changes.
    active_hour text GENERATED ALWAYS AS (substr(last_active, 1, 13)) STORED,
    words tsvector GENERATED ALWAYS AS (to_tsvector('simple', left(title || ' ' || summary, 100000))) STORED,
    PRIMARY KEY (session_id, life)
);

CREATE UNIQUE INDEX IF NOT EXISTS sessions_live ON cortext.sessions (session_id, space) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS sessions_by_time ON cortext.sessions (space, active_hour) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS sessions_words ON cortext.sessions USING gin (words);

CREATE TABLE IF NOT EXISTS cortext.messages (
    session_id text NOT NULL,
    life bigint NOT NULL,
    seq bigint NOT NULL,
    id text NOT NULL,
    role text NOT NULL,
    said_at text NOT NULL,
    tokens bigint NOT NULL,
    -- The plain text; what a message has beyond it (parts, model, usage, …) is JSON in `more`.
    content text NOT NULL,
    more text,
    words tsvector GENERATED ALWAYS AS (to_tsvector('simple', left(content, 100000))) STORED,
    PRIMARY KEY (session_id, life, seq)
);

-- A message whose commit nobody saw is asked for by its id, and can never be there twice.
CREATE UNIQUE INDEX IF NOT EXISTS messages_by_id ON cortext.messages (session_id, life, id);
CREATE INDEX IF NOT EXISTS messages_words ON cortext.messages USING gin (words);

CREATE TABLE IF NOT EXISTS cortext.notes (
    session_id text NOT NULL,
    life bigint NOT NULL,
    number bigint NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (session_id, life, number)
);

-- Rows that a repair took out of a log, as they were.
CREATE TABLE IF NOT EXISTS cortext.quarantine (
    session_id text NOT NULL,
    life bigint NOT NULL,
    seq bigint NOT NULL,
    reason text NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (session_id, life, seq)
);
