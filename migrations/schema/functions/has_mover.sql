CREATE OR REPLACE FUNCTION public.has_mover()
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT EXISTS (SELECT FROM cluster c WHERE c.mover_seen_at > clock_timestamp() - interval '5 minutes');
$function$;
COMMENT ON FUNCTION has_mover() IS 'Return true if a worker that can move tenants was seen lately.';
