CREATE OR REPLACE FUNCTION public.pending_revocations()
 RETURNS TABLE(tenant_id uuid, key_id uuid, revoked_at timestamp with time zone)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT r.tenant_id, r.key_id, r.revoked_at FROM revocations r
    JOIN api_keys k ON k.tenant_id = r.tenant_id AND k.id = r.key_id WHERE k.revoked_at IS NULL;
$function$;
COMMENT ON FUNCTION pending_revocations() IS 'Return the revocations of all tenants that the directory does not have yet.';
