-- The keys of shares and updates, which 0007 left without the owner: with them, a row that somebody else stores first
-- is in the way of the owner's.
--
-- Builds that stop at 0007 name the old key of shares, so this too runs when no process of them is left.

CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS shares_of_owner ON cortext.shares (session_id, life, grantee, owner);
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS updates_of_owner ON cortext.updates (chat, bot, number, owner);
ALTER TABLE cortext.shares DROP CONSTRAINT IF EXISTS shares_pkey;
ALTER TABLE cortext.updates DROP CONSTRAINT IF EXISTS updates_pkey;
