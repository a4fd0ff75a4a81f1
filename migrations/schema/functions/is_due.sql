CREATE OR REPLACE FUNCTION public.is_due(p_next_run timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((p_next_run <= now()) OR (p_next_run > (now() + longest_job_wait())));
COMMENT ON FUNCTION is_due(timestamp with time zone) IS 'Tell whether a job with this next_run is due.';
