CREATE OR REPLACE FUNCTION public.partition_weeks(p_table text, p_before timestamp with time zone)
 RETURNS SETOF timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$
    SELECT w.week FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid, LATERAL (
        SELECT to_date(right(c.relname, 8), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC' AS week) w
    WHERE i.inhparent = format('public.%I', p_table)::regclass AND c.relname ~ '_[0-9]{8}$'
      AND w.week + interval '7 days' <= p_before ORDER BY 1;
$function$;
COMMENT ON FUNCTION partition_weeks(text,timestamp with time zone) IS 'Return the weeks before a time that have a partition of the table, the oldest first.';
