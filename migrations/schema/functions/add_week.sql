CREATE OR REPLACE FUNCTION public.add_week(p_tables text[], p_keys text[], p_week timestamp with time zone, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
END $function$;
COMMENT ON FUNCTION add_week(text[],text[],timestamp with time zone,integer) IS 'Make the partitions of a family for a week. Returns the number of rows that moved from the default partitions, NULL
if they have more than p_limit rows of the week: then nothing is made, because everybody would wait for the move.';
