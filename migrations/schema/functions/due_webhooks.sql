CREATE OR REPLACE FUNCTION public.due_webhooks(p_limit integer)
 RETURNS TABLE(tenant_id uuid, id uuid)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT w.tenant_id, w.id FROM webhooks w WHERE w.state = 'enabled' AND w.due_at <= now()
    ORDER BY w.due_at LIMIT p_limit;
$function$;
COMMENT ON FUNCTION due_webhooks(integer) IS 'Return the enabled webhooks of all tenants that nobody serves now, the longest waiting first.';
