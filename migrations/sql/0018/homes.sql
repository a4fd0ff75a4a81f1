-- The database enforces the place: a statement that would write for a tenant that is not at home here is refused.
--
-- Errors: MN421, the tenant is not at home in this cluster; MN422, the directory is not written in this cluster.

-- Return the lock that a write holds in shared mode, and that the end of a residence takes alone.
CREATE FUNCTION home_lock(p_tenant uuid) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hashtextextended('mnema.home:' || p_tenant, 0);
GRANT EXECUTE ON FUNCTION home_lock(uuid) TO mnema_app;

-- Hold the tenant's home until the transaction ends. Raises MN421 if it is elsewhere. The residence is read after the
-- lock, by a statement of its own, so it is the newest one.
CREATE FUNCTION hold_home(p_tenant uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_home public.residences;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(public.home_lock(p_tenant));
    SELECT * INTO v_home FROM public.residences r WHERE r.tenant_id = p_tenant;
    IF v_home.state IS DISTINCT FROM 'home' THEN
        RAISE EXCEPTION 'the tenant % is not at home in this cluster', p_tenant USING ERRCODE = 'MN421';
    END IF;
    IF v_home.number > 0 THEN PERFORM public.raise_stamps(v_home.number); END IF;
END $$;
GRANT EXECUTE ON FUNCTION hold_home(uuid) TO mnema_app;

-- A statement without a tenant reaches no row of one, by row-level security.
CREATE FUNCTION refuse_away() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
BEGIN
    IF v_tenant IS NOT NULL THEN PERFORM public.hold_home(v_tenant); END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION refuse_copy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM public.cluster c WHERE c.keeps_directory) THEN
        RAISE EXCEPTION 'the table % is written in another cluster', TG_TABLE_NAME USING ERRCODE = 'MN422';
    END IF;
    RETURN NULL;
END $$;

-- Give each table the trigger that it needs, enabled if the database belongs to several clusters. Idempotent. They fire
-- once a statement, and not for what a replication copies.
CREATE FUNCTION guard_tables() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_state text := CASE WHEN EXISTS (SELECT FROM cluster) THEN 'ENABLE' ELSE 'DISABLE' END;
    v_table record;
BEGIN
    FOR v_table IN
        SELECT c.oid::regclass AS name, g.trigger_name, g.function_name
        FROM pg_class c, LATERAL (
            SELECT 'directory_here' AS trigger_name, 'refuse_copy' AS function_name
            WHERE c.relname IN ('tenants', 'api_keys', 'placements', 'moves')
            UNION ALL
            SELECT 'at_home', 'refuse_away' WHERE c.relname NOT IN ('tenants', 'api_keys', 'placements', 'moves',
                                                                    'residences', 'revocations')
              AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id')) g
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    LOOP
        IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = v_table.name AND t.tgname = v_table.trigger_name) THEN
            EXECUTE format('CREATE TRIGGER %I BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT
                            EXECUTE FUNCTION %I()', v_table.trigger_name, v_table.name, v_table.function_name);
        END IF;
        EXECUTE format('ALTER TABLE ONLY %s %s TRIGGER %I', v_table.name, v_state, v_table.trigger_name);
    END LOOP;
END $$;

-- Make this database a cluster of this name. Idempotent. The tenants that it has are at home here from then on, so the
-- first one with tenants must keep the directory. The keys of users come from a range of the cluster's own.
CREATE FUNCTION join_cluster(p_name text, p_number smallint, p_keeps_directory boolean) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    v_cluster cluster := (SELECT c FROM cluster c);
    v_least bigint := p_number::bigint << 40;
    v_tenant uuid;
BEGIN
    IF v_cluster IS NULL AND NOT p_keeps_directory AND EXISTS (SELECT FROM list_tenants()) THEN
        RAISE EXCEPTION 'a database with tenants can only join as the first cluster';
    ELSIF v_cluster IS NULL THEN
        INSERT INTO cluster (name, number, keeps_directory) VALUES (p_name, p_number, p_keeps_directory);
    ELSIF (v_cluster.name, v_cluster.number, v_cluster.keeps_directory) <> (p_name, p_number, p_keeps_directory) THEN
        RAISE EXCEPTION 'this database is the cluster % with the number %', v_cluster.name, v_cluster.number;
    END IF;
    IF (SELECT last_value FROM users_user_pk_seq) < v_least THEN
        PERFORM setval('users_user_pk_seq', v_least);
    END IF;
    PERFORM guard_tables();
    FOR v_tenant IN SELECT t.id FROM list_tenants() t WHERE v_cluster IS NULL LOOP
        PERFORM set_config('app.tenant_id', v_tenant::text, true);
        INSERT INTO placements (tenant_id, cluster) VALUES (v_tenant, p_name);
        INSERT INTO residences (tenant_id, state) VALUES (v_tenant, 'home');
    END LOOP;
    PERFORM set_config('app.tenant_id', '', true);
END $$;

-- End the tenant's residence here. It waits for the writes that hold the home, and those after it wait for the commit
-- and are refused. Returns what the other cluster needs for `begin_residence`. Raises MN421 if there is none to end.
CREATE FUNCTION end_residence(p_tenant uuid, OUT residence_epoch bigint, OUT epoch uuid, OUT up_to bigint)
    LANGUAGE plpgsql AS $$
DECLARE
    v_number smallint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true), pg_advisory_xact_lock(home_lock(p_tenant));
    UPDATE residences r SET state = 'away', epoch = r.epoch + 1, changed_at = clock_timestamp()
        WHERE r.tenant_id = p_tenant AND r.state = 'home' RETURNING r.epoch, r.number INTO residence_epoch, v_number;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the tenant % is not at home in this cluster', p_tenant USING ERRCODE = 'MN421';
    END IF;
    SELECT l.epoch, l.stamp INTO epoch, up_to FROM last_stamp(v_number) l;
END $$;

-- Begin the tenant's residence here, with what `end_residence` returned where the tenant was at home. Idempotent.
-- Raises MN421 if a later residence is known here.
CREATE FUNCTION begin_residence(p_tenant uuid, p_residence_epoch bigint, p_epoch uuid, p_up_to bigint) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    v_number smallint := number_above(p_up_to);
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true), pg_advisory_xact_lock(home_lock(p_tenant));
    IF EXISTS (SELECT FROM residences r
               WHERE r.tenant_id = p_tenant AND r.state = 'home' AND r.epoch = p_residence_epoch) THEN
        RETURN;
    END IF;
    INSERT INTO residences (tenant_id, state, epoch, number) VALUES (p_tenant, 'home', p_residence_epoch, v_number)
        ON CONFLICT (tenant_id) DO UPDATE SET state = 'home', epoch = excluded.epoch, number = excluded.number,
            changed_at = clock_timestamp()
        WHERE residences.state = 'away' AND residences.epoch < excluded.epoch;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a later residence of the tenant % is known here', p_tenant USING ERRCODE = 'MN421';
    END IF;
    UPDATE cluster SET highest_number = greatest(highest_number, v_number);
    INSERT INTO tenant_epochs (tenant_id, epoch, up_to) VALUES (p_tenant, p_epoch, p_up_to)
        ON CONFLICT (tenant_id, epoch) DO UPDATE SET up_to = excluded.up_to;
END $$;

-- Take back an ended residence, if the move goes back before the other one has begun. Returns its new epoch.
CREATE FUNCTION resume_residence(p_tenant uuid, p_residence_epoch bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_epoch bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true), pg_advisory_xact_lock(home_lock(p_tenant));
    UPDATE residences SET state = 'home', epoch = epoch + 1, changed_at = clock_timestamp()
        WHERE tenant_id = p_tenant AND state = 'away' AND epoch = p_residence_epoch RETURNING epoch INTO v_epoch;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the residence % of the tenant % is not known here', p_residence_epoch, p_tenant
            USING ERRCODE = 'MN421';
    END IF;
    RETURN v_epoch;
END $$;

-- Make a space: its tables and all its functions.
CREATE OR REPLACE FUNCTION add_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM create_embedding_space(p_name, p_model, p_dimension, p_partitions);
    PERFORM create_past(p_name);
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- each function names all other spaces
    PERFORM create_journal(p_name), create_recall(p_name), create_chunk_recall(p_name), price_recall(p_name);
    PERFORM guard_tables();
END $$;

SELECT guard_tables();
