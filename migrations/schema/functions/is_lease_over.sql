CREATE OR REPLACE FUNCTION public.is_lease_over(p_until timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((p_until < now()) OR (p_until > (now() + longest_job_lease())));
COMMENT ON FUNCTION is_lease_over(timestamp with time zone) IS 'Tell whether a lease is over.';
