CREATE OR REPLACE FUNCTION public.sweep_blobs(p_tenant uuid, p_before timestamp with time zone, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    RETURN remove_blobs(p_tenant, ARRAY (
        SELECT b.uri FROM blobs b
        WHERE b.tenant_id = p_tenant AND b.created_at < p_before
          AND NOT EXISTS (SELECT FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.hosted_uri = b.uri)
          AND NOT EXISTS (SELECT FROM files f WHERE f.tenant_id = p_tenant AND f.hosted_uri = b.uri)
        ORDER BY b.created_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
END $function$;
COMMENT ON FUNCTION sweep_blobs(uuid,timestamp with time zone,integer) IS 'Take at most p_limit blobs out of the ledger that are older than p_before and that no artifact refers to. Skips a
blob that is being referred to at this moment.';
