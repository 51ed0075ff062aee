-- The tables of an empty database, as the numbered migrations leave them (a test compares the two).
--
-- Every key begins with the id of a session or a chat and every statement names it, so that engines that spread rows
-- over many machines find all of a session on one of them. There is no sequence, no table lock, no trigger and no
-- foreign key. Each statement runs alone, so none depends on another one in the same transaction.

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
    -- How far the background work has come, and whether there is some to do.
    embedded_before bigint NOT NULL DEFAULT 0,
    summarised_before bigint NOT NULL DEFAULT 0,
    due_embed boolean NOT NULL DEFAULT false,
    due_summarise boolean NOT NULL DEFAULT false,
    -- Lists are ordered by the hour first: the index contains only the hour, so it seldom changes.
    last_hour text NOT NULL DEFAULT '',
    owner text NOT NULL DEFAULT CURRENT_USER,
    PRIMARY KEY (session_id, life)
);
CREATE UNIQUE INDEX IF NOT EXISTS sessions_live_of_owner ON cortext.sessions (session_id, space, owner)
    WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS sessions_of_owner ON cortext.sessions (owner, space, last_hour) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS sessions_due_embed ON cortext.sessions (space, last_hour)
    WHERE due_embed AND deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS sessions_due_summarise ON cortext.sessions (space, last_hour)
    WHERE due_summarise AND deleted_at IS NULL;

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

CREATE TABLE IF NOT EXISTS cortext.claims (
    -- The key, a chat's or a session's id, comes first: distributed engines keep its claims with its messages.
    key text NOT NULL,
    topic text NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    token text,
    held_until timestamptz,
    version bigint NOT NULL DEFAULT 0,
    owner text NOT NULL DEFAULT CURRENT_USER,
    CONSTRAINT claims_of_owner PRIMARY KEY (key, topic, owner)
);

CREATE TABLE IF NOT EXISTS cortext.chats (
    chat text NOT NULL,
    space text NOT NULL,
    session_id text NOT NULL,
    owner text NOT NULL DEFAULT CURRENT_USER,
    CONSTRAINT chats_of_owner PRIMARY KEY (chat, space, owner)
);

CREATE TABLE IF NOT EXISTS cortext.updates (
    chat text NOT NULL,
    bot bigint NOT NULL,
    number bigint NOT NULL,
    arrived_at text NOT NULL,
    body text NOT NULL,
    -- Extended while the update is answered: the messages that hold the answer, and notes about it.
    sent text NOT NULL DEFAULT '[]',
    facts text NOT NULL DEFAULT '{}',
    -- Who accepted it: distinguishes a retry by the same process from another process.
    token text NOT NULL,
    done_at text,
    owner text NOT NULL DEFAULT CURRENT_USER,
    CONSTRAINT updates_of_owner PRIMARY KEY (chat, bot, number, owner)
);
CREATE INDEX IF NOT EXISTS updates_waiting ON cortext.updates (bot, number) WHERE done_at IS NULL;

CREATE TABLE IF NOT EXISTS cortext.facts (
    space text NOT NULL,
    id text NOT NULL,
    -- A hash of the normalised text and the expiry: the same fact is not stored twice.
    same text NOT NULL,
    record text NOT NULL,
    created_at text NOT NULL,
    forgotten_at text,
    forgotten_by text,
    owner text NOT NULL DEFAULT CURRENT_USER,
    CONSTRAINT facts_of_owner PRIMARY KEY (space, owner, id)
);
CREATE UNIQUE INDEX IF NOT EXISTS facts_known_of_owner ON cortext.facts (space, owner, same)
    WHERE forgotten_at IS NULL;

CREATE TABLE IF NOT EXISTS cortext.shares (
    session_id text NOT NULL,
    life bigint NOT NULL,
    -- A person or a group: the name of a role, or of an owner behind a shared service role.
    grantee text NOT NULL,
    owner text NOT NULL DEFAULT CURRENT_USER,
    can_write boolean NOT NULL DEFAULT false,
    shared_at text NOT NULL,
    CONSTRAINT shares_of_owner PRIMARY KEY (session_id, life, grantee, owner)
);
CREATE INDEX IF NOT EXISTS shares_with ON cortext.shares (grantee);

-- What was done with shares, and through them. Rows are only added.
CREATE TABLE IF NOT EXISTS cortext.audit (
    session_id text NOT NULL,
    life bigint NOT NULL,
    at text NOT NULL,
    -- Distinguishes entries of the same moment.
    entry text NOT NULL,
    actor text NOT NULL DEFAULT CURRENT_USER,
    owner text NOT NULL,
    action text NOT NULL,
    grantee text NOT NULL DEFAULT '',
    detail text NOT NULL DEFAULT '',
    PRIMARY KEY (session_id, life, at, entry)
);

-- Last, because it says that the others are there. `version` is the oldest release that these tables serve, `applied`
-- the last migration.
CREATE TABLE IF NOT EXISTS cortext.schema_version (
    one boolean PRIMARY KEY,
    version bigint NOT NULL,
    applied bigint NOT NULL DEFAULT 0
);
