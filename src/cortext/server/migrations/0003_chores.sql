-- How far the background work on a session of the assistant has come: its vectors and its summary.
--
-- A flag changes once when an idle session continues, and once when the work is done. In between, an append changes no
-- indexed column, and a worker finds due sessions without reading the others.

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
