CREATE OR REPLACE FUNCTION public.purge_artifacts(p_tenant uuid, p_user text, p_conversation text)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_uris text[];
    v_artifacts int;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    WITH gone AS (
        DELETE FROM conv_messages WHERE tenant_id = p_tenant AND user_id = p_user AND conversation_id = p_conversation
        RETURNING hosted_uri)
    SELECT count(*), array_agg(hosted_uri) FILTER (WHERE hosted_uri IS NOT NULL) INTO v_artifacts, v_uris FROM gone;
    PERFORM discard_blobs(p_tenant, coalesce(v_uris, '{}'));
    RETURN v_artifacts;
END $function$;
COMMENT ON FUNCTION purge_artifacts(uuid,text,text) IS 'Delete the artifacts of a conversation with their blobs. Returns the number of artifacts.';
