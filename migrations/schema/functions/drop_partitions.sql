CREATE OR REPLACE FUNCTION public.drop_partitions(p_events integer, p_receipts integer, p_now timestamp with time zone, p_dry_run boolean)
 RETURNS jsonb
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
 SET lock_timeout TO '200ms'
 SET "TimeZone" TO 'UTC'
AS $function$
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
END $function$;
COMMENT ON FUNCTION drop_partitions(integer,integer,timestamp with time zone,boolean) IS 'Drop the oldest week whose rows every tenant has kept for long enough, with all its rows. p_events and p_receipts are
the installation''s limits in days, p_now is a time that the clocks agree on. Returns [{week, rows: {table: number}}],
empty if there is none, or NULL if a lock was not to be had in time: call it again later. With p_dry_run it drops
nothing and returns all such weeks.

A row''s time may differ from that of its id. A week with a row that is too young stays.';
