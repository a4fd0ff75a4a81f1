CREATE OR REPLACE FUNCTION public.erase_artifacts(p_tenant uuid, p_user text)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_artifacts int;
BEGIN
    DELETE FROM conv_messages WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_artifacts = ROW_COUNT;
    RETURN jsonb_build_object('artifacts', v_artifacts, 'blobs', discard_blobs(p_tenant, ARRAY (
        SELECT uri FROM blobs WHERE tenant_id = p_tenant AND user_id = p_user ORDER BY uri FOR UPDATE)));
END $function$;
COMMENT ON FUNCTION erase_artifacts(uuid,text) IS 'Delete the artifacts of a user with all blobs that were entered for the user. The caller holds the lock of the user''s
row, so that no artifact is written meanwhile. Returns the numbers of rows.';
