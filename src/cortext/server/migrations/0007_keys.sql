-- Keys that did not contain the owner: with them, an id or a chat that one person uses is taken for everybody.
--
-- The release before 0006 needs them, so this runs when no process of it is left (`cortext store migrate --finish`).

DROP INDEX IF EXISTS cortext.sessions_live;
DROP INDEX IF EXISTS cortext.sessions_by_hour;
DROP INDEX IF EXISTS cortext.facts_known;
ALTER TABLE cortext.chats DROP CONSTRAINT IF EXISTS chats_pkey;
ALTER TABLE cortext.claims DROP CONSTRAINT IF EXISTS claims_pkey;
ALTER TABLE cortext.facts DROP CONSTRAINT IF EXISTS facts_pkey;
