-- The words of a text beside its vector: one int8 vector of 96 numbers each, so about 1.4 KB a turn. They stay in the row
-- up to a page: what is read of a hundred candidates should not lie somewhere else.
CREATE FUNCTION add_tokens(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_partition text;
BEGIN
    EXECUTE format('ALTER TABLE %I ADD COLUMN tokens bytea STORAGE EXTERNAL', 'vec_' || p_name);
    FOR v_partition IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = ('vec_' || p_name)::regclass LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN tokens SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160)', v_partition);
    END LOOP;
END $$;

-- put_vectors_<space>: the vectors and tokens of memories that were there before; of p_changed, category and state follow the memory.
-- fill_vectors_<space>: the vectors and tokens of memories that lack either, each only if its memory is still at the version that was
-- read: a change of the text waits, or is waited for and makes its own vector. Answers how many.
CREATE OR REPLACE FUNCTION create_put_vectors(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE format($ddl$
CREATE FUNCTION %1$I(p_tenant uuid, p_ids uuid[], p_vectors halfvec[], p_tokens bytea[], p_changed uuid[]) RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    INSERT INTO %2$I AS v (tenant_id, user_pk, memory_id, type, category, state, embedding, tokens)
        SELECT m.tenant_id, m.user_pk, m.id, m.type, m.category, m.state, x.embedding, x.tokens
        FROM unnest(p_ids, p_vectors, p_tokens) AS x(id, embedding, tokens) JOIN memories m ON m.tenant_id = p_tenant AND m.id = x.id
        WHERE x.id = ANY (p_changed)
        ON CONFLICT (tenant_id, memory_id)
            DO UPDATE SET embedding = excluded.embedding, tokens = excluded.tokens, category = excluded.category,
                          state = excluded.state;
    UPDATE %2$I v SET category = m.category, state = m.state FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND v.tenant_id = p_tenant AND v.memory_id = m.id
          AND (v.category, v.state) IS DISTINCT FROM (m.category, m.state);
END $fn$
    $ddl$, 'put_vectors_' || p_name, 'vec_' || p_name);
    EXECUTE format($ddl$
CREATE FUNCTION %1$I(p_tenant uuid, p_ids uuid[], p_versions int[], p_vectors halfvec[], p_tokens bytea[])
    RETURNS bigint LANGUAGE plpgsql AS $fn$
DECLARE
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    WITH same AS MATERIALIZED (
        SELECT m.user_pk, m.id, m.type, m.category, m.state, x.embedding, x.tokens
        FROM unnest(p_ids, p_versions, p_vectors, p_tokens) AS x(id, version, embedding, tokens)
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = x.id AND m.version = x.version
        ORDER BY m.id FOR SHARE OF m)
    INSERT INTO %2$I AS v (tenant_id, user_pk, memory_id, type, category, state, embedding, tokens)
        SELECT p_tenant, user_pk, id, type, category, state, embedding, tokens FROM same
        ON CONFLICT (tenant_id, memory_id) DO UPDATE SET tokens = excluded.tokens
            WHERE v.tokens IS NULL AND excluded.tokens IS NOT NULL;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $fn$
    $ddl$, 'fill_vectors_' || p_name, 'vec_' || p_name);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %I, %I TO mnema_app', 'put_vectors_' || p_name, 'fill_vectors_' || p_name);
END $space$;

-- What makes a new space; the others are parts of it.
CREATE OR REPLACE FUNCTION add_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM create_embedding_space(p_name, p_model, p_dimension, p_partitions);
    PERFORM add_tokens(p_name);
    PERFORM create_put_vectors(p_name);
    PERFORM create_journal(p_name);
END $$;

DO $$
DECLARE
    v_space text;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I, %I, %I, %I', 'apply_changes_' || v_space, 'record_changes_' || v_space,
                       'put_vectors_' || v_space, 'fill_vectors_' || v_space);
        PERFORM add_tokens(v_space), create_put_vectors(v_space), create_journal(v_space);
    END LOOP;
END $$;
DROP FUNCTION refuse_erased;
