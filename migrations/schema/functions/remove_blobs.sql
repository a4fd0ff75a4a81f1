CREATE OR REPLACE FUNCTION public.remove_blobs(p_tenant uuid, p_uris text[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_count int;
BEGIN
    WITH kept_here AS MATERIALIZED (
        SELECT uri FROM blob_contents WHERE tenant_id = p_tenant AND uri = ANY (p_uris)),
    removed AS (
        DELETE FROM blobs WHERE tenant_id = p_tenant AND uri = ANY (p_uris) RETURNING uri),
    noted AS (
        INSERT INTO swept_blobs (tenant_id, uri)
            SELECT p_tenant, uri FROM removed WHERE uri NOT IN (SELECT uri FROM kept_here))
    SELECT count(*) INTO v_count FROM removed;
    RETURN v_count;
END $function$;
COMMENT ON FUNCTION remove_blobs(uuid,text[]) IS 'Take blobs that no artifact refers to out of the ledger, and return how many. Contents in PostgreSQL go at once; the
others are noted in swept_blobs. The foreign key of conv_messages refuses to take out a blob that is being referred
to.';
