CREATE OR REPLACE FUNCTION public.change_fact(p_said jsonb, p_action text, p_old facts, p_new facts)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
BEGIN
    p_new.created_at := (p_said->>'stated_at')::timestamptz;
    p_new.updated_at := clock_timestamp();
    p_new.source_message_id := p_said->>'source_message_id';
    p_new.doubted_at := CASE WHEN p_action IS NULL THEN p_new.doubted_at END;
    UPDATE facts f SET kind = p_new.kind, rank = p_new.rank, value = p_new.value, value_key = p_new.value_key,
            source_message_id = p_new.source_message_id, list_length = p_new.list_length, listed_at = p_new.listed_at,
            created_at = p_new.created_at, updated_at = p_new.updated_at, removed_at = p_new.removed_at,
            doubted_at = p_new.doubted_at
        WHERE f.tenant_id = p_old.tenant_id AND f.id = p_old.id;
    RETURN jsonb_build_object('action', p_action, 'before', fact_json(p_old), 'after', fact_json(p_new),
                              'was', fact_text(p_old), 'now', fact_text(p_new));
END $function$;
COMMENT ON FUNCTION change_fact(jsonb,text,facts,facts) IS 'Store a change of a fact and return {action, before, after}. The change belongs to the statement p_said.';
