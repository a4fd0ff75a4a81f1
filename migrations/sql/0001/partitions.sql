-- Events and receipts are partitioned by week, so that retention drops a week instead of deleting its rows. An id made
-- by the application is a UUIDv7, which begins with its time: the bounds are the first ids of a week.
--
-- The partitions are in a schema of their own, which mnema_app may not use: a partition bypasses the row-level security
-- of its parent. They and their parents belong to mnema_partitions, a role that cannot log in and that row-level
-- security binds as it binds mnema_owner.

CREATE SCHEMA partitions AUTHORIZATION mnema_partitions;
GRANT SELECT ON tenant_configs TO mnema_partitions;
CREATE POLICY partitions ON tenant_configs FOR SELECT TO mnema_partitions USING (true);

-- Return the smallest UUIDv7 of a time.
CREATE FUNCTION first_id(p_time timestamptz) RETURNS uuid LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN (lpad(to_hex((extract(epoch FROM p_time) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;

-- Return the start of the week of a time: a Monday, 0:00 UTC.
CREATE FUNCTION week_of(p_time timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN date_bin('7 days', p_time, '2001-01-01 00:00:00+00');

-- Return the name of the partition of a table for a week.
CREATE FUNCTION partition_name(p_table text, p_week timestamptz) RETURNS text LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN p_table || '_' || to_char(p_week AT TIME ZONE 'UTC', 'YYYYMMDD');

-- Return the partitioned tables and the columns of their keys. Tables of one family get and lose each week together.
CREATE FUNCTION partition_families() RETURNS TABLE (tables text[], keys text[])
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    VALUES ('{events}'::text[], '{id}'::text[]), ('{receipts,receipt_items}', '{id,receipt_id}');
$$;

-- Make the partitions of a family for a week. Returns the number of rows that moved from the default partitions, NULL
-- if they have more than p_limit rows of the week: then nothing is made, because everybody would wait for the move.
CREATE FUNCTION add_week(p_tables text[], p_keys text[], p_week timestamptz, p_limit int) RETURNS int
    LANGUAGE plpgsql AS $$
DECLARE
    v_from uuid := first_id(p_week);
    v_to uuid := first_id(p_week + interval '7 days');
    v_part text;
    v_rows int;
    v_found boolean := false;
    v_moved int := 0;
BEGIN
    FOR i IN 1 .. cardinality(p_tables) LOOP
        EXECUTE format('SELECT count(*) FROM (SELECT FROM partitions.%I WHERE %I >= $1 AND %2$I < $2 LIMIT $3) o',
                       p_tables[i] || '_default', p_keys[i]) INTO v_rows USING v_from, v_to, p_limit + 1;
        IF v_rows > p_limit THEN RETURN NULL; END IF;
        v_found := v_found OR v_rows > 0;
    END LOOP;
    FOR i IN 1 .. cardinality(p_tables) LOOP
        v_part := partition_name(p_tables[i], p_week);
        -- To attach a table blocks no reader or writer of the parent, unlike CREATE TABLE … PARTITION OF.
        EXECUTE format('CREATE TABLE partitions.%I (LIKE public.%I INCLUDING ALL)', v_part, p_tables[i]);
        PERFORM plan_for_largest_tenant(format('partitions.%I', v_part)::regclass);
        IF v_found THEN  -- a statement that was planned before would not find the moved rows: none may be running
            EXECUTE format('LOCK TABLE public.%I IN ACCESS EXCLUSIVE MODE', p_tables[i]);
            EXECUTE format('WITH moved AS (DELETE FROM partitions.%I WHERE %I >= $1 AND %2$I < $2 RETURNING *)
                            INSERT INTO partitions.%I SELECT * FROM moved',
                           p_tables[i] || '_default', p_keys[i], v_part) USING v_from, v_to;
            GET DIAGNOSTICS v_rows = ROW_COUNT; v_moved := v_moved + v_rows;
        END IF;
        EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION partitions.%I FOR VALUES FROM (%L) TO (%L)',
                       p_tables[i], v_part, v_from, v_to);
    END LOOP;
    RETURN v_moved;
END $$;

-- Make the partitions of this week and of the next four that are missing. Returns {added: names, moved: rows that left
-- the default partitions, skipped: weeks with too many such rows, busy: whether a lock was not to be had in time}.
-- After `busy` call it again later. It counts in UTC: in a session's zone, a day of an interval may have 23 or 25
-- hours.
CREATE FUNCTION add_partitions() RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '200ms' SET timezone = 'UTC' AS $$
DECLARE
    v_family record;
    v_week timestamptz;
    v_rows int;
    v_added text[] := '{}';
    v_skipped text[] := '{}';
    v_moved int := 0;
    v_busy boolean := false;
BEGIN
    IF NOT pg_try_advisory_xact_lock(7305211905) THEN  -- any constant; another process is at it
        RETURN jsonb_build_object('added', v_added, 'moved', 0, 'skipped', v_skipped, 'busy', true);
    END IF;
    FOR v_family IN SELECT * FROM partition_families() LOOP
        FOR v_week IN SELECT week_of(now()) + make_interval(days => 7 * n) FROM generate_series(0, 4) n LOOP
            CONTINUE WHEN to_regclass(format('partitions.%I', partition_name(v_family.tables[1], v_week))) IS NOT NULL;
            BEGIN
                v_rows := add_week(v_family.tables, v_family.keys, v_week, 10000);
                IF v_rows IS NULL THEN
                    v_skipped := v_skipped || partition_name(v_family.tables[1], v_week);
                ELSE
                    v_moved := v_moved + v_rows;
                    v_added := v_added || ARRAY(SELECT partition_name(t, v_week) FROM unnest(v_family.tables) t);
                END IF;
            -- or a row of the week just came
            EXCEPTION WHEN lock_not_available OR deadlock_detected OR check_violation THEN
                v_busy := true;
            END;
        END LOOP;
    END LOOP;
    RETURN jsonb_build_object('added', v_added, 'moved', v_moved, 'skipped', v_skipped, 'busy', v_busy);
END $$;

-- Return the longest time, in days, that a tenant keeps events and receipts: the greatest of the given defaults and of
-- the newest rules of every tenant.
CREATE FUNCTION longest_kept(p_events int, p_receipts int) RETURNS TABLE (events int, receipts int)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT greatest(p_events, max((n.lifecycle->'events_days')::int)),
        greatest(p_receipts, max((n.lifecycle->'receipts_days')::int))
    FROM (SELECT DISTINCT ON (tenant_id) document->'lifecycle' AS lifecycle FROM tenant_configs
          ORDER BY tenant_id, version DESC) n;
$$;

-- Return the weeks before a time that have a partition of the table, the oldest first.
CREATE FUNCTION partition_weeks(p_table text, p_before timestamptz) RETURNS SETOF timestamptz LANGUAGE sql STABLE AS $$
    SELECT w.week FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid, LATERAL (
        SELECT to_date(right(c.relname, 8), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC' AS week) w
    WHERE i.inhparent = format('public.%I', p_table)::regclass AND c.relname ~ '_[0-9]{8}$'
      AND w.week + interval '7 days' <= p_before ORDER BY 1;
$$;

-- Drop the oldest week whose rows every tenant has kept for long enough, with all its rows. p_events and p_receipts are
-- the installation's limits in days, p_now is a time that the clocks agree on. Returns [{week, rows: {table: number}}],
-- empty if there is none, or NULL if a lock was not to be had in time: call it again later. With p_dry_run it drops
-- nothing and returns all such weeks.
--
-- A row's time may differ from that of its id. A week with a row that is too young stays.
CREATE FUNCTION drop_partitions(p_events int, p_receipts int, p_now timestamptz, p_dry_run boolean) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '200ms' SET timezone = 'UTC' AS $$
DECLARE
    v_kept record;
    v_family record;
    v_before timestamptz;
    v_week timestamptz;
    v_parts text[];
    v_count bigint;
    v_last timestamptz;
    v_rows jsonb;
    v_done jsonb := '[]';
BEGIN
    IF NOT pg_try_advisory_xact_lock(7305211905) THEN RETURN NULL; END IF;
    SELECT * INTO v_kept FROM longest_kept(p_events, p_receipts);
    FOR v_family IN SELECT * FROM partition_families() LOOP
        v_before := p_now - make_interval(days => CASE v_family.tables[1] WHEN 'events' THEN v_kept.events
            ELSE v_kept.receipts END);
        FOR v_week IN SELECT * FROM partition_weeks(v_family.tables[1], v_before) LOOP
            v_parts := ARRAY(SELECT format('partitions.%I', partition_name(t, v_week)) FROM unnest(v_family.tables) t);
            v_rows := '{}';
            FOR i IN 1 .. cardinality(v_parts) LOOP
                -- the count stays true
                IF NOT p_dry_run THEN EXECUTE format('LOCK TABLE %s IN SHARE MODE', v_parts[i]); END IF;
                EXECUTE format('SELECT count(*), %s FROM %s', CASE i WHEN 1 THEN 'max(ts)' ELSE 'NULL' END, v_parts[i])
                    INTO v_count, v_last;
                EXIT WHEN v_last >= v_before;
                v_rows := v_rows || jsonb_build_object(v_family.tables[i], v_count);
            END LOOP;
            CONTINUE WHEN v_last >= v_before;
            v_done := v_done || jsonb_build_object('week', v_week, 'rows', v_rows);
            CONTINUE WHEN p_dry_run;
            EXECUTE format('DROP TABLE %s', array_to_string(v_parts, ', '));
            RETURN v_done;
        END LOOP;
    END LOOP;
    RETURN v_done;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN NULL;
END $$;
GRANT EXECUTE ON FUNCTION add_partitions(), longest_kept(int, int),
    drop_partitions(int, int, timestamptz, boolean) TO mnema_app;

GRANT USAGE, CREATE ON SCHEMA public TO mnema_partitions;
GRANT EXECUTE ON FUNCTION plan_for_largest_tenant(regclass) TO mnema_partitions;
ALTER TABLE events OWNER TO mnema_partitions;
ALTER TABLE receipts OWNER TO mnema_partitions;
ALTER TABLE receipt_items OWNER TO mnema_partitions;
ALTER FUNCTION first_id(timestamptz) OWNER TO mnema_partitions;
ALTER FUNCTION week_of(timestamptz) OWNER TO mnema_partitions;
ALTER FUNCTION partition_name(text, timestamptz) OWNER TO mnema_partitions;
ALTER FUNCTION partition_families() OWNER TO mnema_partitions;
ALTER FUNCTION partition_weeks(text, timestamptz) OWNER TO mnema_partitions;
ALTER FUNCTION add_week(text[], text[], timestamptz, int) OWNER TO mnema_partitions;
ALTER FUNCTION add_partitions() OWNER TO mnema_partitions;
ALTER FUNCTION longest_kept(int, int) OWNER TO mnema_partitions;
ALTER FUNCTION drop_partitions(int, int, timestamptz, boolean) OWNER TO mnema_partitions;
REVOKE CREATE ON SCHEMA public FROM mnema_partitions;

SET LOCAL ROLE mnema_partitions;
CREATE TABLE partitions.events_default PARTITION OF events DEFAULT;  -- so that no row is ever refused
CREATE TABLE partitions.receipts_default PARTITION OF receipts DEFAULT;
CREATE TABLE partitions.receipt_items_default PARTITION OF receipt_items DEFAULT;
SELECT plan_for_largest_tenant(t) FROM unnest(ARRAY['partitions.events_default', 'partitions.receipts_default',
                                                    'partitions.receipt_items_default']::regclass[]) t;
SELECT add_partitions();
SET LOCAL ROLE mnema_owner;
