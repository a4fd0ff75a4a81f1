CREATE OR REPLACE FUNCTION public.week_of(p_time timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE STRICT
RETURN date_bin('7 days'::interval, p_time, '2001-01-01 00:00:00+00'::timestamp with time zone);
COMMENT ON FUNCTION week_of(timestamp with time zone) IS 'Return the start of the week of a time: a Monday, 0:00 UTC.';
