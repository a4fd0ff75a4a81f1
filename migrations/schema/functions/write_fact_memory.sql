CREATE OR REPLACE FUNCTION public.write_fact_memory(p_tenant uuid, p_user text, p_topic text, p_by jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_facts facts[] := ARRAY (SELECT f FROM told_facts(p_tenant, p_user, p_topic) f);
    v_pk bigint := user_pk_of(p_tenant, p_user);
    v_source jsonb;
    v_text text;
    v_at timestamptz;
    v_event text;
    v_old memories;
    v_new memories;
    v_set jsonb;
BEGIN
    SELECT * INTO v_old FROM memories m
        WHERE m.tenant_id = p_tenant AND m.user_pk = v_pk AND m.fact_topic = p_topic FOR UPDATE;
    IF v_pk IS NULL OR v_facts = '{}' AND v_old.state IS DISTINCT FROM 'active' THEN RETURN NULL; END IF;
    IF v_facts = '{}' THEN
        v_event := 'DELETE';
        v_set := jsonb_build_object('state', 'soft_deleted');
    ELSE
        v_source := jsonb_build_object('topic_key', p_topic,
            'one', coalesce(p_by->>'one', v_old.source->>'one', replace(p_topic, '_', ' ')),
            'many', coalesce(p_by->>'many', v_old.source->>'many', replace(p_topic, '_', ' ')));
        v_text := fact_memory_text(v_source->>'one', v_source->>'many', v_facts);
        IF (v_old.text, v_old.category, v_old.state) IS NOT DISTINCT FROM (v_text, v_facts[1].category, 'active') THEN
            RETURN NULL;
        END IF;
        SELECT max(f.created_at) INTO v_at FROM unnest(v_facts) f;
        v_event := CASE WHEN v_old.id IS NULL THEN 'ADD' WHEN v_old.state = 'active' THEN 'UPDATE' ELSE 'RESTORE' END;
        v_set := jsonb_build_object('text', v_text, 'category', v_facts[1].category, 'state', 'active',
            'purge_at', NULL,
            'source', v_source, 'created_at', v_at,
            -- never the key of a memory that a user writes: those are of texts in lower case on one line
            'text_hash', sha256(convert_to(E'FACT
' || p_topic || E'
' || v_text, 'UTF8')));
    END IF;
    v_set := v_set || jsonb_build_object('updated_at', clock_timestamp());
    IF v_old.id IS NULL THEN
        v_new := jsonb_populate_record(NULL::memories, v_set);
        INSERT INTO memories (tenant_id, id, user_pk, user_id, type, category, text, text_hash, importance,
            pinned, tags, state,
                              source, metadata, version, created_at, updated_at, fact_topic, origin)
            VALUES (p_tenant, new_id(), v_pk, p_user, 'semantic', v_new.category, v_new.text, v_new.text_hash,
                3, false, '{}',
                    'active', v_source, '{}', 1, v_at, v_new.updated_at, p_topic, 'facts')
            RETURNING * INTO v_new;
    ELSE
        v_new := update_memory(v_old, jsonb_build_object('set', v_set));
    END IF;
    INSERT INTO history (tenant_id, id, memory_id, event, actor, meta, ts)
        VALUES (p_tenant, gen_random_uuid(), v_new.id::text, v_event, p_by->>'actor',
                CASE WHEN v_old.id IS NULL THEN '{}' ELSE jsonb_build_object('before', memory_json(v_old)) END
                || jsonb_build_object('after', memory_json(v_new)), clock_timestamp());
    RETURN jsonb_build_object('id', v_new.id, 'version', v_new.version, 'text', v_new.text,
                              'retold', v_old.text IS DISTINCT FROM v_new.text);
END $function$;
COMMENT ON FUNCTION write_fact_memory(uuid,text,text,jsonb) IS 'Write the memory of a topic anew from its facts: make, change, restore or soft-delete it, with its history. p_by has
the actor, and the topic''s names `one` and `many` (null: those that the memory has). The delta tells the facts
themselves, so the memory is no bullet. A soft-deleted memory goes with the facts that it told: purge_facts purges
it. Returns {id, version, text, retold: its text is new}, NULL if nothing changed.';
