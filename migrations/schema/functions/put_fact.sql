CREATE OR REPLACE FUNCTION public.put_fact(p_tenant uuid, p_said jsonb, p_topic text, p_rank integer, p_entry jsonb, p_length integer)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_at timestamptz := p_said->>'stated_at';
    v_old facts;
    v_new facts;
BEGIN
    SELECT * INTO v_old FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.kind = CASE WHEN p_rank IS NULL THEN 'single' ELSE 'ranked' END
            AND coalesce(f.rank, 0) = coalesce(p_rank, 0);
    IF v_old.id IS NULL OR v_old.removed_at IS NOT NULL THEN
        IF EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f
                   WHERE f.listed_at > v_at AND f.list_length < coalesce(p_rank, f.list_length + 1)
                      OR f.kind = 'single' AND f.removed_at IS NOT NULL AND f.created_at > v_at) THEN
            RETURN NULL;  -- a newer list has no such place, or the topic was removed later
        END IF;
    END IF;
    IF v_old.id IS NULL THEN
        INSERT INTO facts (tenant_id, id, user_id, thread_id, topic_key, kind, rank, value, value_key, category,
                           source_message_id, list_length, listed_at, created_at, updated_at)
            VALUES (p_tenant, (p_entry->>'id')::uuid, p_said->>'user_id', p_said->>'thread_id', p_topic,
                    CASE WHEN p_rank IS NULL THEN 'single' ELSE 'ranked' END, p_rank, p_entry->>'value',
                        p_entry->>'key',
                    p_said->>'category', p_said->>'source_message_id', p_length,
                    CASE WHEN p_length IS NOT NULL THEN v_at END, v_at, clock_timestamp())
            RETURNING * INTO v_new;
        RETURN jsonb_build_object('action', 'store', 'after', fact_json(v_new), 'now', fact_text(v_new));
    END IF;
    v_new := v_old;
    IF p_length IS NOT NULL AND (v_old.listed_at IS NULL OR v_old.listed_at <= v_at) THEN
        v_new.list_length := p_length;  -- also if the value is newer: an older list ends here too
        v_new.listed_at := v_at;
    END IF;
    IF v_old.created_at > v_at THEN
        UPDATE facts f SET list_length = v_new.list_length, listed_at = v_new.listed_at
            WHERE f.tenant_id = p_tenant AND f.id = v_old.id AND f.listed_at IS DISTINCT FROM v_new.listed_at;
        RETURN CASE WHEN v_old.removed_at IS NULL THEN jsonb_build_object('after', fact_json(v_old)) END;
    END IF;
    IF v_old.removed_at IS NULL AND v_old.value_key = p_entry->>'key' THEN  -- stated again: only the time is new
        UPDATE facts f SET created_at = v_at, list_length = v_new.list_length, listed_at = v_new.listed_at,
                doubted_at = NULL
            WHERE f.tenant_id = p_tenant AND f.id = v_old.id RETURNING * INTO v_new;
        IF v_old.doubted_at IS NOT NULL THEN
            PERFORM record_doubt(p_said, v_old, v_new);
        END IF;
        RETURN jsonb_build_object('after', fact_json(v_new));
    END IF;
    v_new.value := p_entry->>'value';
    v_new.value_key := p_entry->>'key';
    v_new.removed_at := NULL;
    RETURN change_fact(p_said, CASE WHEN v_old.removed_at IS NULL THEN 'update' ELSE 'store' END, v_old, v_new);
END $function$;
COMMENT ON FUNCTION put_fact(uuid,jsonb,text,integer,jsonb,integer) IS 'Put a value at a rank (NULL: the single value) unless a newer statement decided that place. p_entry is {value, key,
id}; the id is for a new row. Returns {action: store|update|null, before, after}; action null: nothing was counted.';
