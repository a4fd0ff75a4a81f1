CREATE OR REPLACE FUNCTION public.add_partitions()
 RETURNS jsonb
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
 SET lock_timeout TO '200ms'
 SET "TimeZone" TO 'UTC'
AS $function$
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
END $function$;
COMMENT ON FUNCTION add_partitions() IS 'Make the partitions of this week and of the next four that are missing. Returns {added: names, moved: rows that left
the default partitions, skipped: weeks with too many such rows, busy: whether a lock was not to be had in time}.
After `busy` call it again later. It counts in UTC: in a session''s zone, a day of an interval may have 23 or 25
hours.';
