CREATE OR REPLACE FUNCTION public.erase_sources(p_tenant uuid, p_user text)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_jobs int;
    v_chunks int;
    v_files int;
    v_sources int;
BEGIN
    PERFORM 1 FROM sources WHERE tenant_id = p_tenant AND user_id = p_user ORDER BY id FOR UPDATE;
    PERFORM 1 FROM files WHERE tenant_id = p_tenant AND user_id = p_user ORDER BY id FOR UPDATE;
    DELETE FROM chunks c USING files f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND c.tenant_id = p_tenant AND c.file_id = f.id;
    GET DIAGNOSTICS v_chunks = ROW_COUNT;
    DELETE FROM files WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_files = ROW_COUNT;
    DELETE FROM index_jobs i USING sources s
        WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND i.tenant_id = p_tenant AND i.source_id = s.id;
    GET DIAGNOSTICS v_jobs = ROW_COUNT;
    DELETE FROM sources WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_sources = ROW_COUNT;
    RETURN jsonb_build_object('sources', v_sources, 'files', v_files, 'chunks', v_chunks, 'index_jobs', v_jobs);
END $function$;
COMMENT ON FUNCTION erase_sources(uuid,text) IS 'Delete the sources of a user with their files, the places of their chunks and their index jobs. The chunks and the
blobs go with the user''s memories and blobs. The caller holds the lock of the user''s row, so that no source is added
meanwhile; the locks taken here hold off a job that is indexing a file. Returns the numbers of rows.';
