CREATE OR REPLACE FUNCTION public.longest_job_wait()
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN '2 days'::interval;
COMMENT ON FUNCTION longest_job_wait() IS 'A time further ahead than any that Mnema sets was set while this clock was wrong. It counts as past, so that jobs go
on by themselves when the clock is right again. The application (`app/domain/jobs/job.py`) keeps within these two.';
