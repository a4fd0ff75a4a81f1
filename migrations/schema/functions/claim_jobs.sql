CREATE OR REPLACE FUNCTION public.claim_jobs(p_limit integer, p_again interval)
 RETURNS TABLE(tenant_id uuid, id uuid, kind text)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT d.tenant_id, d.id, d.kind FROM (VALUES (false), (true)) late(compares) CROSS JOIN LATERAL (
        SELECT j.tenant_id, j.id, j.kind, j.next_run FROM jobs j
        WHERE j.state IN ('queued', 'running') AND j.next_run <= now() AND (j.state = 'queued' OR j.lease_until < now())
          AND (j.published_at IS NULL OR j.published_at < now() - p_again
               OR j.state = 'running' AND j.published_at < j.lease_until)
          AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = j.tenant_id AND p.kind IN (j.kind, '*'))
          AND (j.kind IN ('same_fact', 'consolidate')) = late.compares
        ORDER BY j.next_run LIMIT p_limit) d
    ORDER BY late.compares, d.next_run LIMIT p_limit;
$function$;
