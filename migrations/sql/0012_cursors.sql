-- Whom the header told of: '' of everybody. A reader that asks about one user was not shown what changed of the others.
-- The user comes first in the key, so that the cursors of one are found when the user is erased.
ALTER TABLE delta_cursors ADD COLUMN user_id text NOT NULL DEFAULT '';
ALTER TABLE delta_cursors DROP CONSTRAINT delta_cursors_pkey;
ALTER TABLE delta_cursors ADD PRIMARY KEY (tenant_id, user_id, thread_id, agent);
