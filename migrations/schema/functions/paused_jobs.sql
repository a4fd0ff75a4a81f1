CREATE OR REPLACE FUNCTION public.paused_jobs()
 RETURNS TABLE(kind text, tenants bigint)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT p.kind, count(*) FROM job_pauses p GROUP BY p.kind ORDER BY p.kind;
$function$;
COMMENT ON FUNCTION paused_jobs() IS 'Return the paused kinds with the number of tenants (security.sql). They tell work that an operator paused from work
that waits for a worker.';
