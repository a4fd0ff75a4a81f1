CREATE OR REPLACE FUNCTION public.list_tenants()
 RETURNS TABLE(id uuid, name text, created_at timestamp with time zone)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT t.id, t.name, t.created_at FROM tenants t ORDER BY t.name;
$function$;
COMMENT ON FUNCTION list_tenants() IS 'Return all tenants, for schedules and operators (security.sql).';
