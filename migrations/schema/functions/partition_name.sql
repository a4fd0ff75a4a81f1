CREATE OR REPLACE FUNCTION public.partition_name(p_table text, p_week timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE STRICT
RETURN ((p_table || '_'::text) || to_char((p_week AT TIME ZONE 'UTC'::text), 'YYYYMMDD'::text));
COMMENT ON FUNCTION partition_name(text,timestamp with time zone) IS 'Return the name of the partition of a table for a week.';
