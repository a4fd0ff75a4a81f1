CREATE OR REPLACE FUNCTION public.jobs_behind()
 RETURNS double precision
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT extract(epoch FROM now() - min(least(j.next_run, now())))::double precision
    FROM due_times() t JOIN jobs j ON j.next_run > t.after AND j.next_run <= t.until
    WHERE j.state IN ('queued', 'running') AND (j.state = 'queued' OR is_lease_over(j.lease_until))
      AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = j.tenant_id AND p.kind IN (j.kind, '*'));
$function$;
COMMENT ON FUNCTION jobs_behind() IS 'Return for how many seconds the oldest due job of any tenant has waited; NULL if none is due (security.sql).';
