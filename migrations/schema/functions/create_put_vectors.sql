CREATE OR REPLACE FUNCTION public.create_put_vectors(p_name text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_places jsonb := jsonb_build_object('space', p_name, 'change_other_spaces', (
        SELECT coalesce(string_agg(fill_places($other$
    PERFORM keep_past_{other}(p_tenant, p_changed);
    DELETE FROM vec_{other} WHERE tenant_id = p_tenant
        AND (memory_id = ANY (p_ids) AND memory_id = ANY (p_changed) OR memory_id = ANY (p_stale));
    UPDATE vec_{other} v SET category = m.category, state = m.state, indexed = false FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND v.tenant_id = p_tenant AND v.memory_id = m.id
          AND (v.category, v.state) IS DISTINCT FROM (m.category, m.state);$other$,
            jsonb_build_object('other', name)), ''), '')
        FROM embedding_spaces WHERE name <> p_name));
BEGIN
    EXECUTE fill_places($ddl$
-- Store vectors and tokens of existing memories. Of the memories p_changed, keep how they were, copy category and state
-- into every space, and delete the vectors of a changed text from the other spaces. The memories p_stale lose their
-- vectors in every space, because their text is new and has no vector yet.
CREATE OR REPLACE FUNCTION put_vectors_{space}(
    p_tenant uuid, p_ids uuid[], p_vectors halfvec[], p_tokens bytea[], p_changed uuid[], p_stale uuid[])
    RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    PERFORM keep_past_{space}(p_tenant, p_changed);
    IF p_stale <> '{}' THEN DELETE FROM vec_{space} WHERE tenant_id = p_tenant AND memory_id = ANY (p_stale); END IF;
    INSERT INTO vec_{space} AS v (tenant_id, user_pk, memory_id, type, category, state, thread_key, embedding, tokens)
        SELECT m.tenant_id, m.user_pk, m.id, m.type, m.category, m.state, thread_key(m.thread_id), x.embedding, x.tokens
        FROM unnest(p_ids, p_vectors, p_tokens) AS x(id, embedding, tokens) JOIN memories m ON m.tenant_id = p_tenant
            AND m.id = x.id
        WHERE x.id = ANY (p_changed)
        ON CONFLICT (tenant_id, memory_id)
            DO UPDATE SET embedding = excluded.embedding, tokens = excluded.tokens, category = excluded.category,
                          state = excluded.state, indexed = false;
    UPDATE vec_{space} v SET category = m.category, state = m.state, indexed = false FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND v.tenant_id = p_tenant AND v.memory_id = m.id
          AND (v.category, v.state) IS DISTINCT FROM (m.category, m.state);{change_other_spaces}
END $fn$;
GRANT EXECUTE ON FUNCTION put_vectors_{space} TO mnema_app;

COMMENT ON FUNCTION put_vectors_{space} IS 'Store vectors and tokens of existing memories. Of the memories p_changed, keep how they were, copy category and state
into every space, and delete the vectors of a changed text from the other spaces. The memories p_stale lose their
vectors in every space, because their text is new and has no vector yet.';
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
-- Store vectors and tokens that are missing, of each memory that still has the version which was read: a concurrent
-- change of the text brings its own vector. Return how many.
CREATE OR REPLACE FUNCTION fill_vectors_{space}(
    p_tenant uuid, p_ids uuid[], p_versions int[], p_vectors halfvec[], p_tokens bytea[])
    RETURNS bigint LANGUAGE plpgsql AS $fn$
DECLARE
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    WITH same AS MATERIALIZED (
        SELECT m.user_pk, m.id, CASE WHEN m.fact_topic IS NULL THEN m.type ELSE 'fact' END AS type, m.category, m.state,
               thread_key(m.thread_id) AS thread_key, x.embedding, x.tokens
        FROM unnest(p_ids, p_versions, p_vectors, p_tokens) AS x(id, version, embedding, tokens)
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = x.id AND m.version = x.version
        ORDER BY m.id FOR SHARE OF m)
    INSERT INTO vec_{space} AS v (tenant_id, user_pk, memory_id, type, category, state, thread_key, embedding, tokens)
        SELECT p_tenant, user_pk, id, type, category, state, thread_key, embedding, tokens FROM same
        ON CONFLICT (tenant_id, memory_id) DO UPDATE SET tokens = excluded.tokens, indexed = false
            WHERE v.tokens IS NULL AND excluded.tokens IS NOT NULL;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $fn$;
GRANT EXECUTE ON FUNCTION fill_vectors_{space} TO mnema_app;

COMMENT ON FUNCTION fill_vectors_{space} IS 'Store vectors and tokens that are missing, of each memory that still has the version which was read: a concurrent
change of the text brings its own vector. Return how many.';
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
-- Put up to p_limit active vectors of a tenant into the approximate index. Return how many.
CREATE OR REPLACE FUNCTION index_vectors_{space}(
    p_tenant uuid, p_limit int) RETURNS bigint LANGUAGE plpgsql AS $fn$
DECLARE
    v_ids uuid[];
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_ids := ARRAY(SELECT memory_id FROM vec_{space} WHERE tenant_id = p_tenant AND NOT indexed
        AND state = 'active' AND type <> 'chunk'
                   ORDER BY memory_id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    v_ids := v_ids || ARRAY(SELECT memory_id FROM vec_{space} WHERE tenant_id = p_tenant AND NOT indexed
        AND state = 'active' AND type = 'chunk'
                   ORDER BY memory_id LIMIT p_limit - cardinality(v_ids) FOR UPDATE SKIP LOCKED);
    UPDATE vec_{space} SET indexed = true WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $fn$;
GRANT EXECUTE ON FUNCTION index_vectors_{space} TO mnema_app;

COMMENT ON FUNCTION index_vectors_{space} IS 'Put up to p_limit active vectors of a tenant into the approximate index. Return how many.';
    $ddl$, v_places);
END $function$;
COMMENT ON FUNCTION create_put_vectors(text) IS 'Make the functions of a space that store vectors: put_vectors_<space>, which names all other spaces,
fill_vectors_<space> and index_vectors_<space>.';
