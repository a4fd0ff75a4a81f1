CREATE OR REPLACE FUNCTION public.changed_configs(p_since bigint)
 RETURNS TABLE(tenant_id uuid, version integer, document text)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT DISTINCT ON (t.tenant_id) t.tenant_id, t.version, t.document::text FROM tenant_configs t
    WHERE t.stamp >= p_since AND least(t.stamp, (p_since >> 48 << 48) | (t.stamp & ((1::bigint << 48) - 1))) >= p_since
    ORDER BY t.tenant_id, t.version DESC;
$function$;
COMMENT ON FUNCTION changed_configs(bigint) IS 'Return the newest version of each tenant''s rules that changed from a stamp on. Processes ask for all tenants at once
(security.sql). A stamp of a residence with a number of its own is compared as one of the epoch of `p_since`.';
