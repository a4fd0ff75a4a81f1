CREATE OR REPLACE FUNCTION public.claim_jobs(p_limit integer, p_again interval)
 RETURNS TABLE(tenant_id uuid, id uuid, kind text)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT d.tenant_id, d.id, d.kind FROM (VALUES (false), (true)) late(compares) CROSS JOIN LATERAL (
        SELECT j.tenant_id, j.id, j.kind, j.next_run FROM due_times() t JOIN jobs j ON j.next_run > t.after
            AND j.next_run <= t.until
        WHERE j.state IN ('queued', 'running') AND (j.state = 'queued' OR is_lease_over(j.lease_until))
          AND (j.published_at IS NULL OR is_publication_lost(j.published_at, p_again)
               OR j.state = 'running' AND j.published_at < j.lease_until)
          AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = j.tenant_id AND p.kind IN (j.kind, '*'))
          AND (j.kind IN ('same_fact', 'consolidate')) = late.compares
        ORDER BY j.next_run LIMIT p_limit) d
    ORDER BY late.compares, d.next_run LIMIT p_limit;
$function$;
COMMENT ON FUNCTION claim_jobs(integer,interval) IS 'Return the due jobs of all tenants that the broker should get (security.sql), those that only compare memories last.
A job that no worker started within p_again comes again, and so does a job whose lease ended.';
