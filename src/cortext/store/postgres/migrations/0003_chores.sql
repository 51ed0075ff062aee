-- How far a session of the assistant was looked after: its messages have vectors, its summary covers them.
--
-- A mark changes once when a quiet session goes on, and once when it is settled. In between, an append changes no column
-- of an index, and a worker finds what is due without looking at what is not.

ALTER TABLE cortext.sessions ADD COLUMN IF NOT EXISTS embedded_before bigint NOT NULL DEFAULT 0;
ALTER TABLE cortext.sessions ADD COLUMN IF NOT EXISTS summarised_before bigint NOT NULL DEFAULT 0;
ALTER TABLE cortext.sessions ADD COLUMN IF NOT EXISTS to_embed boolean GENERATED ALWAYS AS (
    space = 'chat' AND (next_seq > embedded_before OR (summary <> '' AND summary_vector IS NULL))
) STORED;
ALTER TABLE cortext.sessions ADD COLUMN IF NOT EXISTS to_summarise boolean GENERATED ALWAYS AS (
    space = 'chat' AND next_seq > summarised_before
) STORED;

CREATE INDEX IF NOT EXISTS sessions_to_embed ON cortext.sessions (space, active_hour)
    WHERE to_embed AND deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS sessions_to_summarise ON cortext.sessions (space, active_hour)
    WHERE to_summarise AND deleted_at IS NULL;
