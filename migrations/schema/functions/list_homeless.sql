CREATE OR REPLACE FUNCTION public.list_homeless(p_limit integer)
 RETURNS TABLE(tenant_id uuid)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT p.tenant_id FROM placements p JOIN cluster c ON c.name = p.cluster
    LEFT JOIN residences r ON r.tenant_id = p.tenant_id
    WHERE coalesce(r.state = 'away', p.epoch > 1) ORDER BY 1 LIMIT p_limit;
$function$;
COMMENT ON FUNCTION list_homeless(integer) IS 'Return tenants that this cluster''s copy of the directory places here, and that are not at home here: they have moved,
and no residence was begun here, or it has ended. At most `p_limit`. A tenant that is moving may be among them. One
that has never moved is settled by its first request.';
