CREATE OR REPLACE FUNCTION public.newest_placement()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT max(p.changed_at) FROM placements p;
$function$;
COMMENT ON FUNCTION newest_placement() IS 'Return the time of the newest placement.';
