CREATE OR REPLACE FUNCTION public.partition_name(p_table text, p_week timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE STRICT
RETURN ((p_table || '_'::text) || to_char((p_week AT TIME ZONE 'UTC'::text), 'YYYYMMDD'::text));
