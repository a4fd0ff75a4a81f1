CREATE OR REPLACE FUNCTION public.due_times()
 RETURNS TABLE(after timestamp with time zone, until timestamp with time zone)
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
    VALUES ('-infinity'::timestamptz, now()), (now() + longest_job_wait(), 'infinity'::timestamptz);
$function$;
COMMENT ON FUNCTION due_times() IS 'Return the two spans of time in which a job''s next_run makes it due.';
