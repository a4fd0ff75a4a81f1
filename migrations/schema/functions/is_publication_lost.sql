CREATE OR REPLACE FUNCTION public.is_publication_lost(p_published_at timestamp with time zone, p_again interval)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((p_published_at < (now() - p_again)) OR (p_published_at > (now() + longest_job_lease())));
COMMENT ON FUNCTION is_publication_lost(timestamp with time zone,interval) IS 'Tell whether a published job must be published again because nobody started it within p_again. A concurrent sweep''s
time may be a little later than this transaction''s.';
