-- put_vectors_<space>: the vectors of memories that were there before; of p_changed, category and state follow the memory.
-- fill_vectors_<space>: the vectors of memories that had none, each only if its memory is still at the version that was
-- read: a change of the text waits, or is waited for and makes its own vector. Answers how many.
CREATE FUNCTION create_put_vectors(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE format($ddl$
CREATE FUNCTION %1$I(p_tenant uuid, p_ids uuid[], p_vectors halfvec[], p_changed uuid[]) RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    INSERT INTO %2$I AS v (tenant_id, user_pk, memory_id, type, category, state, embedding)
        SELECT m.tenant_id, m.user_pk, m.id, m.type, m.category, m.state, x.embedding
        FROM unnest(p_ids, p_vectors) AS x(id, embedding) JOIN memories m ON m.tenant_id = p_tenant AND m.id = x.id
        WHERE x.id = ANY (p_changed)
        ON CONFLICT (tenant_id, memory_id)
            DO UPDATE SET embedding = excluded.embedding, category = excluded.category, state = excluded.state;
    UPDATE %2$I v SET category = m.category, state = m.state FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND v.tenant_id = p_tenant AND v.memory_id = m.id
          AND (v.category, v.state) IS DISTINCT FROM (m.category, m.state);
END $fn$
    $ddl$, 'put_vectors_' || p_name, 'vec_' || p_name);
    EXECUTE format($ddl$
CREATE FUNCTION %1$I(p_tenant uuid, p_ids uuid[], p_versions int[], p_vectors halfvec[]) RETURNS bigint LANGUAGE plpgsql AS $fn$
DECLARE
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    WITH same AS MATERIALIZED (
        SELECT m.user_pk, m.id, m.type, m.category, m.state, x.embedding
        FROM unnest(p_ids, p_versions, p_vectors) AS x(id, version, embedding)
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = x.id AND m.version = x.version
        ORDER BY m.id FOR SHARE OF m)
    INSERT INTO %2$I (tenant_id, user_pk, memory_id, type, category, state, embedding)
        SELECT p_tenant, user_pk, id, type, category, state, embedding FROM same
        ON CONFLICT (tenant_id, memory_id) DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $fn$
    $ddl$, 'fill_vectors_' || p_name, 'vec_' || p_name);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %I, %I TO mnema_app', 'put_vectors_' || p_name, 'fill_vectors_' || p_name);
END $space$;

-- What makes a new space; create_embedding_space is a part of it.
CREATE FUNCTION add_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM create_embedding_space(p_name, p_model, p_dimension, p_partitions);
    PERFORM create_put_vectors(p_name);
    PERFORM create_journal(p_name);
END $$;

SELECT create_put_vectors(name), create_journal(name) FROM embedding_spaces;
