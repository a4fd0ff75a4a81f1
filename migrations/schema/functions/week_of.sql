CREATE OR REPLACE FUNCTION public.week_of(p_time timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE STRICT
RETURN date_bin('7 days'::interval, p_time, '2001-01-01 00:00:00+00'::timestamp with time zone);
