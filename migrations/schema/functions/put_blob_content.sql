CREATE OR REPLACE FUNCTION public.put_blob_content(p_tenant uuid, p_uri text, p_content bytea)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    INSERT INTO blob_contents (tenant_id, uri, content) VALUES (p_tenant, p_uri, p_content) ON CONFLICT DO NOTHING;
END $function$;
COMMENT ON FUNCTION put_blob_content(uuid,text,bytea) IS 'Store the content of a blob that is in the ledger. A stored content stays.';
