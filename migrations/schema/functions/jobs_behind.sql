CREATE OR REPLACE FUNCTION public.jobs_behind()
 RETURNS double precision
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT extract(epoch FROM now() - min(j.next_run))::double precision FROM jobs j
    WHERE j.state IN ('queued', 'running') AND j.next_run <= now() AND (j.state = 'queued' OR j.lease_until < now())
      AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = j.tenant_id AND p.kind IN (j.kind, '*'));
$function$;
