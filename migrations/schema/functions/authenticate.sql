CREATE OR REPLACE FUNCTION public.authenticate(p_key_hash bytea)
 RETURNS TABLE(tenant_id uuid, key_id uuid, agents text[], scopes text[], expires_at timestamp with time zone)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT k.tenant_id, k.id, k.agents, k.scopes, k.expires_at FROM api_keys k
    WHERE k.key_hash = p_key_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
      AND NOT EXISTS (SELECT FROM revocations r WHERE r.tenant_id = k.tenant_id AND r.key_id = k.id);
$function$;
COMMENT ON FUNCTION authenticate(bytea) IS 'Return the API key with this hash, if it is neither revoked nor expired. Its tenant is not known yet, so the function
reads the keys of all tenants (security.sql).';
