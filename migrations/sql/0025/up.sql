-- The memories that state a standing instruction have a tag, and an index of their own.

SET LOCAL statement_timeout = 0;  -- a large table takes long

CREATE INDEX memories_instructions ON memories (tenant_id, user_pk, created_at DESC, id DESC)
    WHERE state = 'active' AND 'standing-instruction' = ANY (tags);

-- Return the newest p_limit standing instructions of a user, newest first, with what tells how near each is to a query:
-- the cosine of its vector and its words in the space p_space. `turn_id`: the turn that it was drawn from. If p_as_of
-- or p_valid_at is not NULL, the memories as they were then; they may have the categories p_today now. What has a span
-- is an instruction only within it.
CREATE FUNCTION standing_instructions(
    p_tenant uuid, p_user text, p_categories text[], p_filters jsonb, p_space text, p_vector halfvec, p_limit int,
    p_as_of timestamptz, p_valid_at timestamptz, p_today text[])
    RETURNS TABLE (id uuid, text text, created_at timestamptz, type text, turn_id text, similarity float8, tokens bytea)
    LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_user bigint;
    v_at timestamptz := coalesce(p_as_of, 'infinity');
    v_valid timestamptz := coalesce(p_valid_at, p_as_of);
    v_ids uuid[];
    v_texts text[];
    v_times timestamptz[];
    v_types text[];
    v_turns text[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := coalesce(user_pk_of(p_tenant, p_user), -1);
    IF p_as_of IS NULL AND p_valid_at IS NULL THEN
        SELECT array_agg(f.id), array_agg(f.text), array_agg(f.created_at), array_agg(f.type), array_agg(f.turn_id)
        INTO v_ids, v_texts, v_times, v_types, v_turns FROM (
            SELECT m.id, m.text, m.created_at, m.type, m.source->>'turn_id' AS turn_id FROM memories m
            WHERE m.tenant_id = p_tenant AND m.user_pk = v_user AND m.state = 'active'
              AND 'standing-instruction' = ANY (m.tags) AND m.category = ANY (p_categories)
              AND m.type NOT IN ('chunk', 'procedural') AND coalesce(m.expires_at > now(), true)
              AND coalesce(m.valid_from <= now(), true) AND coalesce(m.valid_to > now(), true)
              AND memory_matches(m, p_filters)
            ORDER BY m.created_at DESC, m.id DESC LIMIT p_limit) f;
    ELSE
        SELECT array_agg(f.id), array_agg(f.text), array_agg(f.created_at), array_agg(f.type), array_agg(f.turn_id)
        INTO v_ids, v_texts, v_times, v_types, v_turns FROM (
            SELECT w.id, w.text, w.created_at, w.type, w.source->>'turn_id' AS turn_id
            FROM memories_at(p_tenant, v_user, v_at) w
            JOIN memories m ON m.tenant_id = p_tenant AND m.id = w.id
            WHERE 'standing-instruction' = ANY (w.tags) AND w.category = ANY (p_categories)
              AND w.type NOT IN ('chunk', 'procedural') AND (p_today IS NULL OR m.category = ANY (p_today))
              AND answers_at(w, v_at, p_valid_at) AND coalesce(w.valid_from <= v_valid, true)
              AND coalesce(w.valid_to > v_valid, true) AND memory_matches(w, p_filters)
            ORDER BY w.created_at DESC, w.id DESC LIMIT p_limit) f;
    END IF;
    IF v_ids IS NOT NULL THEN
        RETURN QUERY EXECUTE format(
            'SELECT f.id, f.text, f.created_at, f.type, f.turn_id, 1 - (v.embedding <=> $7), v.tokens
             FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY f(id, text, created_at, type, turn_id, place)
             LEFT JOIN %I v ON v.tenant_id = $6 AND v.memory_id = f.id ORDER BY f.place', 'vec_' || p_space)
            USING v_ids, v_texts, v_times, v_types, v_turns, p_tenant, p_vector;
    END IF;
END $$;
GRANT EXECUTE ON FUNCTION
    standing_instructions(uuid, text, text[], jsonb, text, halfvec, int, timestamptz, timestamptz, text[]) TO mnema_app;
