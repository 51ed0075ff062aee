-- What an assistant keeps beside its sessions, and who of many workers does what.

CREATE TABLE IF NOT EXISTS cortext.claims (
    -- A chat's or a session's id first: its claims lie where its messages lie.
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
    -- Grows while the update is answered: the messages that hold the answer, and what was noted on the way.
    sent text NOT NULL DEFAULT '[]',
    facts text NOT NULL DEFAULT '{}',
    -- Who took it in: a second try of the same process is told from another process.
    token text NOT NULL,
    done_at text,
    PRIMARY KEY (chat, bot, number)
);
CREATE INDEX IF NOT EXISTS updates_waiting ON cortext.updates (bot, number) WHERE done_at IS NULL;

CREATE TABLE IF NOT EXISTS cortext.facts (
    space text NOT NULL,
    id text NOT NULL,
    -- The words without what does not count, and until when they hold: the same fact is not kept twice.
    same text NOT NULL,
    record text NOT NULL,
    created_at text NOT NULL,
    forgotten_at text,
    forgotten_by text,
    PRIMARY KEY (space, id)
);
CREATE UNIQUE INDEX IF NOT EXISTS facts_known ON cortext.facts (space, same) WHERE forgotten_at IS NULL;
