CREATE OR REPLACE FUNCTION public.list_moves(p_unfinished boolean)
 RETURNS TABLE(tenant_id uuid, id uuid, source text, target text, step text, error text, details jsonb, started_at timestamp with time zone, changed_at timestamp with time zone, ended_at timestamp with time zone)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT m.tenant_id, m.id, m.source, m.target, m.step, m.error, m.details, m.started_at, m.changed_at, m.ended_at
    FROM moves m WHERE m.ended_at IS NULL OR NOT p_unfinished ORDER BY m.started_at DESC, m.id DESC;
$function$;
COMMENT ON FUNCTION list_moves(boolean) IS 'Return the moves of all tenants, the newest first: the unfinished ones, or all.';
