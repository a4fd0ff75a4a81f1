-- One cursor for all users again: the one least far along. What was shown may be told again, nothing is left out.
ALTER TABLE delta_cursors NO FORCE ROW LEVEL SECURITY;  -- or the owner would change nothing, in silence
INSERT INTO delta_cursors AS c (tenant_id, user_id, thread_id, agent, rev)
    SELECT tenant_id, '', thread_id, agent, min(rev) FROM delta_cursors GROUP BY tenant_id, thread_id, agent
    ON CONFLICT (tenant_id, user_id, thread_id, agent) DO UPDATE SET rev = excluded.rev;
DELETE FROM delta_cursors WHERE user_id <> '';
ALTER TABLE delta_cursors FORCE ROW LEVEL SECURITY;
ALTER TABLE delta_cursors DROP COLUMN user_id;  -- and the key with it
ALTER TABLE delta_cursors ADD PRIMARY KEY (tenant_id, thread_id, agent);

-- Back to the search of 0006, which makes its functions only where there are none.
DO $$
DECLARE
    v_space text;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I, %I', 'recall_' || v_space, 'near_' || v_space);
        PERFORM create_recall(v_space);
    END LOOP;
END $$;
