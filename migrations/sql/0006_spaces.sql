-- Approximate search that no write pays for. To put a vector into an HNSW index costs fifty times what storing it does, so a
-- vector enters it later, in the background, and only in tenants that are large: `indexed` says that it has. Until then it is
-- compared one by one.

-- Dimensions up to which a vector fits into a btree entry (2,704 bytes), where an exact search reads it.
CREATE FUNCTION widest_exact() RETURNS int LANGUAGE sql IMMUTABLE RETURN 1152;

-- Of wider ones the signs lie in the index, one bit a dimension.
CREATE FUNCTION index_space(p_name text, p_dimension int) RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_table text := 'vec_' || p_name;
    v_index text;
BEGIN
    EXECUTE format('ALTER TABLE %I ADD COLUMN indexed boolean NOT NULL DEFAULT false', v_table);
    EXECUTE format('CREATE INDEX ON %I (tenant_id, memory_id) WHERE NOT indexed AND state = ''active''', v_table);
    IF p_dimension <= widest_exact() THEN
        EXECUTE format('CREATE INDEX ON %I USING hnsw (embedding halfvec_cosine_ops) WHERE indexed AND state = ''active''', v_table);
        RETURN;
    END IF;
    EXECUTE format('ALTER TABLE %I ADD COLUMN signs bit(%s) GENERATED ALWAYS AS (binary_quantize(embedding)::bit(%2$s)) STORED',
                   v_table, p_dimension);
    FOR v_index IN SELECT indexrelid::regclass FROM pg_index WHERE indrelid = v_table::regclass AND indnkeyatts = 2 AND indnatts = 5 LOOP
        EXECUTE format('DROP INDEX %s', v_index);
    END LOOP;
    EXECUTE format('CREATE INDEX ON %I (tenant_id, user_pk) INCLUDE (memory_id, type, category, signs) WHERE state = ''active''', v_table);
    EXECUTE format('CREATE INDEX ON %I USING hnsw (signs bit_hamming_ops) WHERE indexed AND state = ''active''', v_table);
END $space$;

-- put_vectors_<space>: the vectors and tokens of memories that were there before; of p_changed, category and state follow the
-- memory, in every space; what another space holds of a changed text goes.
-- fill_vectors_<space>: the vectors and tokens of memories that lack either, each only if its memory is still at the version that was
-- read: a change of the text waits, or is waited for and makes its own vector. Answers how many.
-- index_vectors_<space>: so many more active vectors of a tenant into the approximate index. Answers how many.
CREATE OR REPLACE FUNCTION create_put_vectors(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_others text;
BEGIN
    SELECT coalesce(string_agg(format($ddl$
    DELETE FROM %1$I WHERE tenant_id = p_tenant AND memory_id = ANY (p_ids) AND memory_id = ANY (p_changed);
    UPDATE %1$I v SET category = m.category, state = m.state, indexed = false FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND v.tenant_id = p_tenant AND v.memory_id = m.id
          AND (v.category, v.state) IS DISTINCT FROM (m.category, m.state);$ddl$, 'vec_' || name), ''), '')
        INTO v_others FROM embedding_spaces WHERE name <> p_name;
    EXECUTE format($ddl$
CREATE OR REPLACE FUNCTION %1$I(p_tenant uuid, p_ids uuid[], p_vectors halfvec[], p_tokens bytea[], p_changed uuid[])
    RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    INSERT INTO %2$I AS v (tenant_id, user_pk, memory_id, type, category, state, embedding, tokens)
        SELECT m.tenant_id, m.user_pk, m.id, m.type, m.category, m.state, x.embedding, x.tokens
        FROM unnest(p_ids, p_vectors, p_tokens) AS x(id, embedding, tokens) JOIN memories m ON m.tenant_id = p_tenant AND m.id = x.id
        WHERE x.id = ANY (p_changed)
        ON CONFLICT (tenant_id, memory_id)
            DO UPDATE SET embedding = excluded.embedding, tokens = excluded.tokens, category = excluded.category,
                          state = excluded.state, indexed = false;
    UPDATE %2$I v SET category = m.category, state = m.state, indexed = false FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND v.tenant_id = p_tenant AND v.memory_id = m.id
          AND (v.category, v.state) IS DISTINCT FROM (m.category, m.state);%3$s
END $fn$
    $ddl$, 'put_vectors_' || p_name, 'vec_' || p_name, v_others);
    EXECUTE format($ddl$
CREATE OR REPLACE FUNCTION %1$I(p_tenant uuid, p_ids uuid[], p_versions int[], p_vectors halfvec[], p_tokens bytea[])
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
        ON CONFLICT (tenant_id, memory_id) DO UPDATE SET tokens = excluded.tokens, indexed = false
            WHERE v.tokens IS NULL AND excluded.tokens IS NOT NULL;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $fn$
    $ddl$, 'fill_vectors_' || p_name, 'vec_' || p_name);
    EXECUTE format($ddl$
CREATE OR REPLACE FUNCTION %1$I(p_tenant uuid, p_limit int) RETURNS bigint LANGUAGE plpgsql AS $fn$
DECLARE
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    UPDATE %2$I SET indexed = true WHERE tenant_id = p_tenant AND memory_id = ANY (ARRAY(
        SELECT memory_id FROM %2$I WHERE tenant_id = p_tenant AND NOT indexed AND state = 'active'
        ORDER BY memory_id LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $fn$
    $ddl$, 'index_vectors_' || p_name, 'vec_' || p_name);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %I, %I, %I TO mnema_app', 'put_vectors_' || p_name, 'fill_vectors_' || p_name,
                   'index_vectors_' || p_name);
END $space$;

-- What makes a new space; the others are parts of it.
CREATE OR REPLACE FUNCTION add_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM create_embedding_space(p_name, p_model, p_dimension, p_partitions);
    PERFORM add_tokens(p_name), index_space(p_name, p_dimension);
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- each knows all the others
    PERFORM create_journal(p_name), create_recall(p_name);
END $$;

DO $$
DECLARE
    v_space record;
BEGIN
    FOR v_space IN SELECT name, dimension FROM embedding_spaces LOOP
        PERFORM index_space(v_space.name, v_space.dimension);
    END LOOP;
    PERFORM create_put_vectors(name), create_recall(name) FROM embedding_spaces;
END $$;
