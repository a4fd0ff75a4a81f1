CREATE OR REPLACE FUNCTION public.update_memory(p_old memories, p_change jsonb)
 RETURNS memories
 LANGUAGE plpgsql
AS $function$
DECLARE
    r memories := jsonb_populate_record(p_old, p_change->'set');
BEGIN
    UPDATE memories m SET text = r.text, steps_text = r.steps_text, text_hash = r.text_hash, category = r.category,
            importance = r.importance, pinned = r.pinned, tags = r.tags, state = r.state, source = r.source,
            metadata = r.metadata, superseded_by = r.superseded_by, purge_at = r.purge_at, expires_at = r.expires_at,
            language = r.language, valid_from = r.valid_from, valid_to = r.valid_to, version = m.version + 1,
            created_at = r.created_at, updated_at = r.updated_at
        WHERE m.tenant_id = p_old.tenant_id AND m.id = p_old.id RETURNING * INTO r;
    RETURN r;
END $function$;
COMMENT ON FUNCTION update_memory(memories,jsonb) IS 'Update a memory with the fields of p_change->''set'' and return the new row.';
