-- Embedding spaces: one vector table a model, hash-partitioned by tenant, with its own static search functions (a
-- dynamic statement would be planned anew on every call).

CREATE FUNCTION create_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_table text := 'vec_' || p_name;
BEGIN
    IF p_name !~ '^[a-z][a-z0-9_]{0,40}$' THEN RAISE EXCEPTION 'invalid space name %', p_name; END IF;
    EXECUTE format('CREATE TABLE %I (
        tenant_id uuid NOT NULL, user_pk bigint NOT NULL, memory_id uuid NOT NULL, type text NOT NULL, category text NOT NULL,
        state text NOT NULL, embedding halfvec(%s) NOT NULL, PRIMARY KEY (tenant_id, memory_id),
        FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, id) ON DELETE CASCADE
    ) PARTITION BY HASH (tenant_id)', v_table, p_dimension);
    FOR i IN 0 .. p_partitions - 1 LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
                       v_table || '_p' || i, v_table, p_partitions, i);
    END LOOP;
    -- exact search of one user reads this index alone; a btree entry holds at most 2,704 bytes, 2 a dimension
    EXECUTE format('CREATE INDEX ON %I (tenant_id, user_pk) INCLUDE (memory_id, type, category%s) WHERE state = ''active''',
                   v_table, CASE WHEN p_dimension <= 1152 THEN ', embedding' ELSE '' END);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', v_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', v_table);
    EXECUTE format($p$CREATE POLICY tenant ON %I
        USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
        WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)$p$, v_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO mnema_app', v_table);
    PERFORM create_neighbours(p_name);
    INSERT INTO embedding_spaces (name, model, dimension, active)
        VALUES (p_name, p_model, p_dimension, NOT EXISTS (SELECT 1 FROM embedding_spaces WHERE active));
END $space$;

-- neighbours_<space>: what a new text is compared with, in one call and one scan. Semantic memories only:
-- the best p_near of its category (merge bands), the best p_link of any visible category (relations) and the one with
-- an equal text, whatever its vector.
CREATE FUNCTION create_neighbours(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE format($ddl$
CREATE FUNCTION %1$I(p_tenant uuid, p_user text, p_category text, p_categories text[], p_hash bytea, p_vector halfvec,
                     p_near int, p_link int, p_link_min real)
    RETURNS TABLE (id uuid, similarity double precision, near boolean, link boolean, equal boolean, category text, text text,
                   thread_id text, importance smallint, pinned boolean, tags text[], version int, created_at timestamptz)
    LANGUAGE plpgsql VOLATILE AS $fn$
#variable_conflict use_column
DECLARE
    v_user bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := user_pk_of(p_tenant, p_user);
    IF v_user IS NULL THEN RETURN; END IF;
    RETURN QUERY
        WITH scan AS MATERIALIZED (
            SELECT v.memory_id, v.category, (v.embedding <=> p_vector) AS distance FROM %2$I v
            WHERE v.tenant_id = p_tenant AND v.user_pk = v_user AND v.state = 'active' AND v.type = 'semantic'
              AND (p_categories IS NULL OR v.category = ANY (p_categories))),
        picked AS (
            (SELECT memory_id, true AS near, false AS link FROM scan WHERE category = p_category ORDER BY distance LIMIT p_near)
            UNION ALL
            (SELECT memory_id, false, true FROM scan WHERE distance <= 1 - p_link_min ORDER BY distance LIMIT p_link)
            UNION ALL
            SELECT m.id, false, false FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk = v_user
                AND m.category = p_category AND m.text_hash = p_hash AND m.type = 'semantic' AND m.state = 'active')
        SELECT m.id, 1 - min(s.distance), bool_or(p.near), bool_or(p.link),
               m.text_hash = p_hash AND m.category = p_category, m.category, m.text, m.thread_id, m.importance, m.pinned,
               m.tags, m.version, m.created_at
        FROM picked p JOIN memories m ON m.tenant_id = p_tenant AND m.id = p.memory_id AND m.state = 'active'
        LEFT JOIN scan s ON s.memory_id = p.memory_id
        GROUP BY m.tenant_id, m.id ORDER BY 2 DESC NULLS LAST, m.id;
END $fn$
    $ddl$, 'neighbours_' || p_name, 'vec_' || p_name);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO mnema_app', 'neighbours_' || p_name);
END $space$;


SELECT create_embedding_space('minilm_l6_v2', 'all-MiniLM-L6-v2', 384, 16);
