-- Every row belongs to somebody: by default to the role that writes it. Sessions can be shared, and that is audited.
--
-- The release before this one keeps working: it neither reads nor writes the new columns. Rows that exist already get
-- their owner from the command that migrates. The keys that this release no longer needs are dropped by 0007.

ALTER TABLE cortext.schema_version ADD COLUMN IF NOT EXISTS applied bigint NOT NULL DEFAULT 0;

ALTER TABLE cortext.sessions ADD COLUMN IF NOT EXISTS owner text NOT NULL DEFAULT '';
ALTER TABLE cortext.sessions ALTER COLUMN owner SET DEFAULT CURRENT_USER;
ALTER TABLE cortext.chats ADD COLUMN IF NOT EXISTS owner text NOT NULL DEFAULT '';
ALTER TABLE cortext.chats ALTER COLUMN owner SET DEFAULT CURRENT_USER;
ALTER TABLE cortext.facts ADD COLUMN IF NOT EXISTS owner text NOT NULL DEFAULT '';
ALTER TABLE cortext.facts ALTER COLUMN owner SET DEFAULT CURRENT_USER;
ALTER TABLE cortext.updates ADD COLUMN IF NOT EXISTS owner text NOT NULL DEFAULT '';
ALTER TABLE cortext.updates ALTER COLUMN owner SET DEFAULT CURRENT_USER;
ALTER TABLE cortext.claims ADD COLUMN IF NOT EXISTS owner text NOT NULL DEFAULT '';
ALTER TABLE cortext.claims ALTER COLUMN owner SET DEFAULT CURRENT_USER;
ALTER TABLE IF EXISTS cortext.vectors ADD COLUMN IF NOT EXISTS owner text NOT NULL DEFAULT '';
ALTER TABLE IF EXISTS cortext.vectors ALTER COLUMN owner SET DEFAULT CURRENT_USER;

CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS sessions_live_of_owner ON cortext.sessions (session_id, space, owner)
    WHERE deleted_at IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS sessions_of_owner ON cortext.sessions (owner, space, last_hour)
    WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS chats_of_owner ON cortext.chats (chat, space, owner);
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS claims_of_owner ON cortext.claims (key, topic, owner);
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS facts_of_owner ON cortext.facts (space, owner, id);
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS facts_known_of_owner ON cortext.facts (space, owner, same)
    WHERE forgotten_at IS NULL;

CREATE TABLE IF NOT EXISTS cortext.shares (
    session_id text NOT NULL,
    life bigint NOT NULL,
    -- A person or a group: the name of a role, or of an owner behind a shared service role.
    grantee text NOT NULL,
    owner text NOT NULL DEFAULT CURRENT_USER,
    can_write boolean NOT NULL DEFAULT false,
    shared_at text NOT NULL,
    PRIMARY KEY (session_id, life, grantee)
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
