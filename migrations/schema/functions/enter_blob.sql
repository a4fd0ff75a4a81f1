CREATE OR REPLACE FUNCTION public.enter_blob(p_tenant uuid, p_user text, p_uri text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    INSERT INTO blobs (tenant_id, user_id, uri) VALUES (p_tenant, p_user, p_uri);
END $function$;
COMMENT ON FUNCTION enter_blob(uuid,text,text) IS 'Enter a blob in the ledger before it is stored.';
