-- Moves that the administrators of a tenant ask for, and erasures that copies in former homes still owe. A server
-- stores both, and a worker with an operator's URLs carries them out.

ALTER TABLE cluster ADD COLUMN mover_seen_at timestamptz;  -- of the directory: when a worker last could move tenants
ALTER TABLE moves ADD COLUMN aborted_at timestamptz;       -- when somebody asked for its end; whoever runs it undoes it
ALTER TABLE moves ADD COLUMN erasures_owed int NOT NULL DEFAULT 0;  -- erasures that the copy on its source did not get

-- Return true if a process holds the lock of the tenant's move.
CREATE FUNCTION is_moved_now(p_tenant uuid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM hashtextextended('mnema.move:' || p_tenant, 0) key, pg_locks l
        JOIN pg_database d ON d.oid = l.database
        WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objsubid = 1
          AND l.classid::bigint = (key >> 32) & 4294967295 AND l.objid::bigint = key & 4294967295);
$$;

-- Return true if a worker that can move tenants was seen lately.
CREATE FUNCTION has_mover() RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM cluster c WHERE c.mover_seen_at > clock_timestamp() - interval '5 minutes');
$$;

-- Store that the tenant is to move to a cluster. Returns `requested`, or what forbids it: `no_mover`, `unplaced`,
-- `at_home`, `moving`, or `spent`, with the seconds until it may ask again. It may ask `p_per_day` times in 24 hours.
CREATE FUNCTION request_move(
    p_tenant uuid, p_id uuid, p_target text, p_per_day int, OUT outcome text, OUT wait_s int)
    LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_home text := (SELECT p.cluster FROM placements p WHERE p.tenant_id = p_tenant);
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mnema.move-request:' || p_tenant, 0));
    SELECT ceil(extract(epoch FROM m.started_at + interval '1 day' - clock_timestamp())) INTO wait_s FROM moves m
    WHERE m.tenant_id = p_tenant AND m.details ? 'requested' AND m.started_at > clock_timestamp() - interval '1 day'
    ORDER BY m.started_at DESC OFFSET p_per_day - 1 LIMIT 1;
    outcome := CASE
        WHEN EXISTS (SELECT FROM moves m WHERE m.tenant_id = p_tenant AND m.ended_at IS NULL) THEN 'moving'
        WHEN v_home IS NULL THEN 'unplaced'
        WHEN v_home = p_target THEN 'at_home'
        WHEN wait_s IS NOT NULL THEN 'spent'
        WHEN NOT has_mover() THEN 'no_mover'
        ELSE 'requested' END;
    IF outcome = 'requested' THEN
        INSERT INTO moves (tenant_id, id, source, target, step, details)
            VALUES (p_tenant, p_id, v_home, p_target, 'requested', '{"requested": true, "leave_region": false}')
            ON CONFLICT (tenant_id) WHERE ended_at IS NULL DO NOTHING;
        outcome := CASE WHEN FOUND THEN 'requested' ELSE 'moving' END;  -- an operator's move has just begun
    END IF;
END $$;

-- Return the former homes of all tenants whose copies still have what was erased, with the number of erasures. A tenant
-- that has just moved is left out for two minutes: requests from before may still read its copies.
CREATE FUNCTION owed_erasures() RETURNS TABLE (tenant_id uuid, cluster text, erasures int)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT m.tenant_id, m.source, max(m.erasures_owed)
    FROM moves m JOIN placements p ON p.tenant_id = m.tenant_id AND p.cluster <> m.source
    WHERE m.erasures_owed > 0 AND m.step = 'done' AND NOT EXISTS (
        SELECT FROM moves l WHERE l.tenant_id = m.tenant_id AND l.step = 'done'
            AND l.ended_at >= clock_timestamp() - interval '2 minutes')
    GROUP BY m.tenant_id, m.source ORDER BY 1, 2;
$$;

REVOKE ALL ON FUNCTION owed_erasures() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION owed_erasures() TO mnema_app;
GRANT CREATE ON SCHEMA public TO mnema_auth;  -- only an owner who may create can own
ALTER FUNCTION owed_erasures() OWNER TO mnema_auth;
REVOKE CREATE ON SCHEMA public FROM mnema_auth;

REVOKE ALL ON FUNCTION request_move(uuid, uuid, text, int), is_moved_now(uuid), has_mover() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION request_move(uuid, uuid, text, int), is_moved_now(uuid), has_mover() TO mnema_app;

-- The server's role may ask for a move out of the tenant's home that leaves no region, may withdraw it before a worker
-- begins it, may ask for the end of one that a tenant asked for, and may count erasures. It writes nothing else of a
-- move. Restrictive: the tenant's policy must allow the row, too.
GRANT INSERT (tenant_id, id, source, target, step, details), UPDATE (aborted_at, erasures_owed), DELETE
    ON moves TO mnema_app;
CREATE POLICY requested ON moves AS RESTRICTIVE FOR INSERT TO mnema_app WITH CHECK (
    step = 'requested' AND details = '{"requested": true, "leave_region": false}' AND source <> target AND has_mover()
    AND source = (SELECT p.cluster FROM placements p WHERE p.tenant_id = moves.tenant_id));
-- The former home has its copy from `flip` on, so an erasure is counted from there on. A mark of an abort changes
-- nothing then.
CREATE POLICY aborted ON moves AS RESTRICTIVE FOR UPDATE TO mnema_app USING (
    step IN ('flip', 'clean', 'done') OR details ? 'requested' AND ended_at IS NULL);
CREATE POLICY withdrawn ON moves AS RESTRICTIVE FOR DELETE TO mnema_app USING (
    step = 'requested' AND details ? 'requested');
