-- Sessions, their messages, and records about messages.
--
-- Every key begins with the session's id and every statement names it, so that engines that spread rows over many
-- machines find all of a session on one of them. There is no sequence, no table lock, no trigger and no foreign key.

CREATE TABLE IF NOT EXISTS cortext.sessions (
    session_id text NOT NULL,
    -- An id can be reused while an older session with that id is in the trash: the life distinguishes them.
    life bigint NOT NULL,
    -- The store it belongs to: home, spawn or chat.
    space text NOT NULL,
    deleted_at text,
    -- The complete metadata as JSON. The six columns after it repeat the fields used in filters and searches.
    record text NOT NULL,
    type text NOT NULL,
    title text NOT NULL,
    status text NOT NULL,
    agent text NOT NULL,
    tool text NOT NULL,
    summary text NOT NULL,
    created_at text NOT NULL,
    -- The end of the log. None of these is indexed, so that an append updates one row in place.
    last_active text NOT NULL,
    next_seq bigint NOT NULL DEFAULT 0,
    message_count bigint NOT NULL DEFAULT 0,
    token_count bigint NOT NULL DEFAULT 0,
    straight boolean NOT NULL DEFAULT true,
    archived_before bigint NOT NULL DEFAULT 0,
    -- The embedding of the summary, and the summary that it belongs to.
    summary_vector text,
    next_note bigint NOT NULL DEFAULT 0,
    -- The lease: its holder, its expiry, and a fencing number that increases with every new holder.
    fence bigint NOT NULL DEFAULT 0,
    holder text,
    token text,
    held_since text,
    held_until timestamptz,
    -- Lists are ordered by the hour first: the index contains only the hour, so it seldom changes.
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
    -- The plain text; the other fields of a message (parts, model, usage, …) are JSON in `more`.
    content text NOT NULL,
    more text,
    words tsvector GENERATED ALWAYS AS (to_tsvector('simple', left(content, 100000))) STORED,
    PRIMARY KEY (session_id, life, seq)
);

-- After a commit whose answer was lost, the message is looked up by its id, and it can never be stored twice.
CREATE UNIQUE INDEX IF NOT EXISTS messages_by_id ON cortext.messages (session_id, life, id);
CREATE INDEX IF NOT EXISTS messages_words ON cortext.messages USING gin (words);

CREATE TABLE IF NOT EXISTS cortext.notes (
    session_id text NOT NULL,
    life bigint NOT NULL,
    number bigint NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (session_id, life, number)
);

-- Rows that a repair removed from a log, unchanged.
CREATE TABLE IF NOT EXISTS cortext.quarantine (
    session_id text NOT NULL,
    life bigint NOT NULL,
    seq bigint NOT NULL,
    reason text NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (session_id, life, seq)
);
