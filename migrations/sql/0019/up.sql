-- Moves of tenants between clusters.

-- End the tenant's residence here. It waits for the writes that hold the home, and those after it wait for the commit
-- and are refused. Returns what the other cluster needs for `begin_residence`. Raises MN421 if there is none to end.
-- The row of `tenant_epochs` is the last that the tenant writes here: a cluster that has it has everything.
CREATE OR REPLACE FUNCTION end_residence(p_tenant uuid, OUT residence_epoch bigint, OUT epoch uuid, OUT up_to bigint)
    LANGUAGE plpgsql AS $$
DECLARE
    v_number smallint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true), pg_advisory_xact_lock(home_lock(p_tenant));
    SELECT r.number INTO v_number FROM residences r WHERE r.tenant_id = p_tenant;
    SELECT l.epoch, l.stamp INTO epoch, up_to FROM last_stamp(v_number) l;
    INSERT INTO tenant_epochs AS e (tenant_id, epoch, up_to) VALUES (p_tenant, end_residence.epoch, end_residence.up_to)
        ON CONFLICT ON CONSTRAINT tenant_epochs_pkey DO UPDATE SET up_to = excluded.up_to;
    UPDATE residences r SET state = 'away', epoch = r.epoch + 1, changed_at = clock_timestamp()
        WHERE r.tenant_id = p_tenant AND r.state = 'home' RETURNING r.epoch INTO residence_epoch;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the tenant % is not at home in this cluster', p_tenant USING ERRCODE = 'MN421';
    END IF;
END $$;

-- Return the newest version of each tenant's rules that changed from a stamp on. Processes ask for all tenants at once
-- (security.sql). A stamp of a residence with a number of its own is compared as one of the epoch of `p_since`.
CREATE OR REPLACE FUNCTION changed_configs(p_since bigint)
    RETURNS TABLE (tenant_id uuid, version int, document text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT DISTINCT ON (t.tenant_id) t.tenant_id, t.version, t.document::text FROM tenant_configs t
    WHERE t.stamp >= p_since AND least(t.stamp, (p_since >> 48 << 48) | (t.stamp & ((1::bigint << 48) - 1))) >= p_since
    ORDER BY t.tenant_id, t.version DESC;
$$;

-- The server's role makes a new tenant at home where the directory placed it first, and nothing else. A later home
-- begins by a move alone. Restrictive: the tenant's policy must allow the row, too.
CREATE POLICY first_home ON residences AS RESTRICTIVE FOR INSERT TO mnema_app WITH CHECK (
    state = 'home' AND epoch = 1 AND number = 0
    AND EXISTS (SELECT FROM placements p JOIN cluster c ON c.name = p.cluster
                WHERE p.tenant_id = residences.tenant_id AND p.epoch = 1));
CREATE POLICY first_home ON placements AS RESTRICTIVE FOR INSERT TO mnema_app WITH CHECK (epoch = 1);
REVOKE DELETE ON revocations FROM mnema_app;

-- The trigger fires also for what a replication copies, whose workers search no schema.
ALTER FUNCTION index_words() SET search_path = pg_catalog, public, pg_temp;
