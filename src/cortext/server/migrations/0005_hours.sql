-- The hours of existing sessions. Separate from 0004, because some engines fill a new column only after the commit.

UPDATE cortext.sessions SET last_hour = substr(last_active, 1, 13) WHERE last_hour = '';

CREATE INDEX IF NOT EXISTS sessions_by_hour ON cortext.sessions (space, last_hour) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS sessions_due_embed ON cortext.sessions (space, last_hour)
    WHERE due_embed AND deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS sessions_due_summarise ON cortext.sessions (space, last_hour)
    WHERE due_summarise AND deleted_at IS NULL;
