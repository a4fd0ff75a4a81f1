-- The bodies of before.

DROP FUNCTION read_answer(uuid, text, text[], jsonb, text[], int, uuid[], int, int);

-- Return a memory as history keeps it and as the application reads it: without the text index and the internal user
-- key.
CREATE OR REPLACE FUNCTION memory_json(r memories) RETURNS jsonb LANGUAGE sql STABLE
    RETURN jsonb_build_object('id', r.id, 'user_id', r.user_id, 'thread_id', r.thread_id, 'seq', r.seq,
        'agent_id', r.agent_id, 'run_id', r.run_id, 'actor_id', r.actor_id, 'role', r.role, 'type', r.type,
        'category', r.category, 'text', r.text, 'steps_text', r.steps_text, 'importance', r.importance,
        'pinned', r.pinned, 'tags', r.tags, 'state', r.state, 'source', r.source, 'metadata', r.metadata,
        'superseded_by', r.superseded_by, 'purge_at', r.purge_at, 'version', r.version, 'created_at', r.created_at,
        'updated_at', r.updated_at, 'expires_at', r.expires_at, 'language', r.language,
        'valid_from', r.valid_from, 'valid_to', r.valid_to);
GRANT EXECUTE ON FUNCTION memory_json(memories) TO mnema_app;

-- Return whether a memory passes the filters of a request. A missing or null key is no filter. `where` is a path into
-- the list of a memory's values, in the order below; those that are not in `where_fields` are null, because making JSON
-- of them costs more than the path. If it is about the metadata alone, it is a path into them, because copying them
-- into a list costs as much again. Times are microseconds since 1970. The body is one expression, so that the planner
-- inlines it.
CREATE OR REPLACE FUNCTION memory_matches(m memories, f jsonb) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN f IS NULL OR (
        (f->>'agent_id' IS NULL OR m.agent_id = f->>'agent_id')
        AND (f->>'run_id' IS NULL OR m.run_id = f->>'run_id')
        AND (f->>'actor_id' IS NULL OR m.actor_id = f->>'actor_id')
        AND (f->>'role' IS NULL OR m.role = f->>'role')
        AND (f->>'thread_id' IS NULL OR m.thread_id = f->>'thread_id')
        -- in no thread, or knowledge about the user, whatever thread it was learnt in; turns and summaries stay in
        -- theirs
        AND (f->>'shared_thread' IS NULL OR m.thread_id IS NULL OR m.thread_id = f->>'shared_thread'
             OR m.type IN ('semantic', 'episodic', 'insight'))
        AND (f->'type' IS NULL OR f->'type' ? m.type)  -- one type, or several in an array
        AND (f->>'text_contains' IS NULL OR strpos(m.text, f->>'text_contains') > 0)
        AND (f->>'pinned' IS NULL OR m.pinned = (f->>'pinned')::boolean)
        AND (f->>'importance_min' IS NULL OR m.importance >= (f->>'importance_min')::int)
        AND (f->>'importance_max' IS NULL OR m.importance <= (f->>'importance_max')::int)
        AND (f->>'created_after' IS NULL OR m.created_at >= (f->>'created_after')::timestamptz)
        AND (f->>'created_before' IS NULL OR m.created_at < (f->>'created_before')::timestamptz)
        AND (f->>'updated_after' IS NULL OR m.updated_at >= (f->>'updated_after')::timestamptz)
        AND (f->>'updated_before' IS NULL OR m.updated_at < (f->>'updated_before')::timestamptz)
        AND (f->>'unexpired_at' IS NULL OR coalesce(m.expires_at > (f->>'unexpired_at')::timestamptz, true))
        AND (f->>'valid_at' IS NULL OR coalesce(m.valid_from <= (f->>'valid_at')::timestamptz, true)
             AND coalesce(m.valid_to > (f->>'valid_at')::timestamptz, true))
        AND (f->'exclude_ids' IS NULL OR NOT f->'exclude_ids' ? m.id::text)
        AND (f->'exclude_sources' IS NULL OR NOT coalesce(f->'exclude_sources' ? (m.source->>'source_id'), false))
        AND (f->>'before_seq' IS NULL OR m.seq IS NULL OR m.seq < (f->>'before_seq')::bigint
             OR m.thread_id IS DISTINCT FROM f->>'before_thread')
        AND (f->>'where' IS NULL OR jsonb_path_match(CASE WHEN f->'where_fields' = '["metadata"]' THEN m.metadata
            ELSE jsonb_build_array(
            CASE WHEN f->'where_fields' ? 'id' THEN m.id END,
            CASE WHEN f->'where_fields' ? 'text' THEN m.text END,
            CASE WHEN f->'where_fields' ? 'type' THEN m.type END,
            CASE WHEN f->'where_fields' ? 'category' THEN m.category END,
            CASE WHEN f->'where_fields' ? 'tags' THEN m.tags END,
            CASE WHEN f->'where_fields' ? 'metadata' THEN m.metadata END,
            CASE WHEN f->'where_fields' ? 'importance' THEN m.importance END,
            CASE WHEN f->'where_fields' ? 'pinned' THEN m.pinned END,
            CASE WHEN f->'where_fields' ? 'user_id' THEN m.user_id END,
            CASE WHEN f->'where_fields' ? 'thread_id' THEN m.thread_id END,
            CASE WHEN f->'where_fields' ? 'agent_id' THEN m.agent_id END,
            CASE WHEN f->'where_fields' ? 'run_id' THEN m.run_id END,
            CASE WHEN f->'where_fields' ? 'actor_id' THEN m.actor_id END,
            CASE WHEN f->'where_fields' ? 'role' THEN m.role END,
            CASE WHEN f->'where_fields' ? 'language' THEN m.language END,
            CASE WHEN f->'where_fields' ? 'state' THEN m.state END,
            CASE WHEN f->'where_fields' ? 'created_at' THEN extract(epoch FROM m.created_at) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'updated_at' THEN extract(epoch FROM m.updated_at) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'valid_from' THEN extract(epoch FROM m.valid_from) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'valid_to' THEN extract(epoch FROM m.valid_to) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'expires_at' THEN extract(epoch FROM m.expires_at) * 1000000 END
        ) END, (f->>'where')::jsonpath, f->'where_values', true))
    );

-- Return the answer of a query, in this order: at most p_whole_limit memories of the categories p_whole; the memories
-- p_chosen that are still visible; at most p_related of the strongest relations of the first p_first of them, with
-- `via`, the memory that each is related to. A related memory may be a chosen one.
CREATE FUNCTION read_answer(p_tenant uuid, p_user text, p_categories text[], p_filters jsonb, p_whole text[],
    p_whole_limit int,
        p_chosen uuid[], p_related int, p_first int)
    RETURNS TABLE (part text, strength real, via uuid, id uuid, user_id text, thread_id text, seq bigint,
        agent_id text, run_id text,
        actor_id text, role text, type text, category text, text text, steps_text text, importance smallint,
            pinned boolean,
        tags text[], state text, source jsonb, metadata jsonb, superseded_by uuid, purge_at timestamptz, version int,
        created_at timestamptz, updated_at timestamptz, fact_topic text,
        expires_at timestamptz, language text, valid_from timestamptz, valid_to timestamptz)
    LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $fn$
#variable_conflict use_column
DECLARE
    v_user bigint;
    v_whole uuid[] := '{}';
    v_texts text[];
    v_others uuid[] := '{}';
    v_vias uuid[];
    v_strengths real[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := CASE WHEN p_user IS NOT NULL THEN coalesce(user_pk_of(p_tenant, p_user), -1) END;
    p_filters := live_filters(p_tenant, v_user, p_filters);
    IF p_whole <> '{}' THEN
        v_whole := ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant
            AND (v_user IS NULL OR m.user_pk = v_user)
            AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_whole) AND memory_matches(m, p_filters)
            ORDER BY m.pinned DESC, m.importance DESC, m.updated_at DESC, m.id LIMIT p_whole_limit);
    END IF;
    IF p_related > 0 AND p_chosen <> '{}' THEN
        v_texts := p_chosen[:p_first]::text[];
        SELECT array_agg(x.other), array_agg(x.via), array_agg(x.strength) INTO v_others, v_vias, v_strengths FROM (
            SELECT o.id AS other, e.via, e.strength
            FROM (SELECT d.* FROM (
                    SELECT DISTINCT ON (b.other) b.other, b.via, b.strength FROM (
                        SELECT r.to_id::uuid AS other, r.from_id::uuid AS via, r.strength FROM relations r
                            WHERE r.tenant_id = p_tenant AND r.from_id = ANY (v_texts)
                        UNION ALL
                        SELECT r.from_id::uuid, r.to_id::uuid, r.strength FROM relations r
                            WHERE r.tenant_id = p_tenant AND r.to_id = ANY (v_texts)) b
                    WHERE NOT b.other = ANY (v_whole) ORDER BY b.other, b.strength DESC, b.via) d
                  ORDER BY d.strength DESC, d.other OFFSET 0) e
            CROSS JOIN LATERAL (  -- from the strongest down, until there are enough
                SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.id = e.other AND m.state = 'active'
                AND m.category = ANY (p_categories) AND (v_user IS NULL OR m.user_pk = v_user)
                    AND memory_matches(m, p_filters) OFFSET 0) o
            ORDER BY e.strength DESC, e.other LIMIT p_related) x;
    END IF;
    RETURN QUERY SELECT a.part, a.strength, a.via, m.id, m.user_id, m.thread_id, m.seq, m.agent_id, m.run_id,
        m.actor_id, m.role,
        m.type, m.category, m.text, m.steps_text, m.importance, m.pinned, m.tags, m.state, m.source, m.metadata,
            m.superseded_by,
        m.purge_at, m.version, m.created_at, m.updated_at, m.fact_topic,
        m.expires_at, m.language, m.valid_from, m.valid_to
    FROM (SELECT 1 AS rank, 'whole' AS part, w.at, w.id, NULL::real AS strength, NULL::uuid AS via
              FROM unnest(v_whole) WITH ORDINALITY AS w(id, at)
          UNION ALL SELECT 2, 'chosen', c.at, c.id, NULL, NULL FROM unnest(p_chosen) WITH ORDINALITY AS c(id, at)
          UNION ALL SELECT 3, 'related', o.at, o.id, o.strength, o.via
              FROM unnest(v_others, v_strengths, v_vias) WITH ORDINALITY AS o(id, strength, via, at)) a
    JOIN memories m ON m.tenant_id = p_tenant AND m.id = a.id AND m.state = 'active' AND m.category = ANY (p_categories)
        AND (v_user IS NULL OR m.user_pk = v_user) AND memory_matches(m, p_filters)
    ORDER BY a.rank, a.at;
END $fn$;
GRANT EXECUTE ON FUNCTION read_answer(uuid, text, text[], jsonb, text[], int, uuid[], int, int) TO mnema_app;

-- Write the memory of a topic anew from its facts: make, change, restore or soft-delete it, with its history. p_by has
-- the actor, and the topic's names `one` and `many` (null: those that the memory has). The delta tells the facts
-- themselves, so the memory is no bullet. A soft-deleted memory goes with the facts that it told: purge_facts purges
-- it. Returns {id, version, text, retold: its text is new}, NULL if nothing changed.
CREATE OR REPLACE FUNCTION write_fact_memory(p_tenant uuid, p_user text, p_topic text, p_by jsonb) RETURNS jsonb
    LANGUAGE plpgsql AS $$
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
                              source, metadata, version, created_at, updated_at, fact_topic)
            VALUES (p_tenant, new_id(), v_pk, p_user, 'semantic', v_new.category, v_new.text, v_new.text_hash,
                3, false, '{}',
                    'active', v_source, '{}', 1, v_at, v_new.updated_at, p_topic)
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
END $$;

-- Make record_changes_<space> and apply_changes_<space>.
CREATE OR REPLACE FUNCTION create_journal(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE fill_places($ddl$
{{../0006/spaces/record_changes.sql}}
    $ddl$, jsonb_build_object('space', p_name));
    EXECUTE fill_places($ddl$
{{../0001/spaces/apply_changes.sql}}
    $ddl$, jsonb_build_object('space', p_name));
END $space$;

SELECT create_journal(name) FROM embedding_spaces;

ALTER TABLE memories DROP COLUMN origin;
