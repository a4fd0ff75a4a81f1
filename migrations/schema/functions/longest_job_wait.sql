CREATE OR REPLACE FUNCTION public.longest_job_wait()
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN '2 days'::interval;
