-- An assistant's data beside its sessions, and the claims of workers on tasks.

CREATE TABLE IF NOT EXISTS cortext.claims (
    -- The key, a chat's or a session's id, comes first: distributed engines keep its claims with its messages.
    key text NOT NULL,
    topic text NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    token text,
    held_until timestamptz,
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (key, topic)
);

CREATE TABLE IF NOT EXISTS cortext.chats (
    chat text NOT NULL,
    space text NOT NULL,
    session_id text NOT NULL,
    PRIMARY KEY (chat, space)
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
    PRIMARY KEY (chat, bot, number)
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
    PRIMARY KEY (space, id)
);
CREATE UNIQUE INDEX IF NOT EXISTS facts_known ON cortext.facts (space, same) WHERE forgotten_at IS NULL;
