CREATE OR REPLACE FUNCTION public.discard_blobs(p_tenant uuid, p_uris text[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_count int := remove_blobs(p_tenant, p_uris);
BEGIN
    IF NOT EXISTS (SELECT FROM swept_blobs WHERE tenant_id = p_tenant AND uri = ANY (p_uris) AND NOT deleted) THEN
        RETURN v_count;
    END IF;
    PERFORM FROM jobs WHERE tenant_id = p_tenant AND kind = 'blobs' AND state = 'queued' AND is_due(next_run)
        LIMIT 1 FOR SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO jobs (tenant_id, id, kind) VALUES (p_tenant, gen_random_uuid(), 'blobs');
    END IF;
    RETURN v_count;
END $function$;
COMMENT ON FUNCTION discard_blobs(uuid,text[]) IS 'Take blobs out of the ledger at once, and queue the deletion of those outside PostgreSQL. Returns their number. A job
that waits deletes these too: its lock keeps it from starting before this transaction ends.';
