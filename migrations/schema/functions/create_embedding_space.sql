CREATE OR REPLACE FUNCTION public.create_embedding_space(p_name text, p_model text, p_dimension integer, p_partitions integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_table text := 'vec_' || p_name;
    v_wide boolean := p_dimension > widest_exact();
    v_which text;
BEGIN
    IF p_name !~ '^[a-z][a-z0-9_]{0,40}$' THEN RAISE EXCEPTION 'invalid space name %', p_name; END IF;
    EXECUTE format('CREATE TABLE %I (
        tenant_id uuid NOT NULL, user_pk bigint NOT NULL, memory_id uuid NOT NULL, type text NOT NULL,
            category text NOT NULL,
        state text NOT NULL, thread_key bigint, embedding halfvec(%s) NOT NULL, tokens bytea STORAGE EXTERNAL,
        indexed boolean NOT NULL DEFAULT false%s, PRIMARY KEY (tenant_id, memory_id),
        FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, id) ON DELETE CASCADE
    ) PARTITION BY HASH (tenant_id)', v_table, p_dimension, CASE WHEN v_wide THEN format(
        ', signs bit(%s) GENERATED ALWAYS AS (binary_quantize(embedding)::bit(%1$s)) STORED', p_dimension) ELSE '' END);
    FOR i IN 0 .. p_partitions - 1 LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS %s, REMAINDER %s)
                        WITH (toast_tuple_target = 8160)', v_table || '_p' || i, v_table, p_partitions, i);
        PERFORM plan_for_largest_tenant(format('%I', v_table || '_p' || i)::regclass);
    END LOOP;
    -- An exact search for one user reads only the first index. Chunks have indexes of their own, so that a hundred
    -- thousand of them do not slow down the search for other memories.
    FOREACH v_which IN ARRAY ARRAY['<>', '='] LOOP
        EXECUTE format('CREATE INDEX ON %I (tenant_id, user_pk) INCLUDE (memory_id, type, category, thread_key, %s)
                        WHERE state = ''active'' AND type %s ''chunk''', v_table,
                       CASE WHEN v_wide THEN 'signs' ELSE 'embedding' END, v_which);
        EXECUTE format('CREATE INDEX ON %I (tenant_id, memory_id)
                        WHERE NOT indexed AND state = ''active'' AND type %s ''chunk''',
                       v_table, v_which);
        EXECUTE format('CREATE INDEX ON %I USING hnsw (%s) WHERE indexed AND state = ''active'' AND type %s ''chunk''',
            v_table,
                       CASE WHEN v_wide THEN 'signs bit_hamming_ops' ELSE 'embedding halfvec_cosine_ops' END, v_which);
    END LOOP;
    PERFORM plan_for_largest_tenant(format('%I', v_table)::regclass);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', v_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', v_table);
    EXECUTE format($p$CREATE POLICY tenant ON %I
        USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
        WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)$p$, v_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO mnema_app', v_table);
    PERFORM create_neighbours(p_name);
    INSERT INTO embedding_spaces (name, model, dimension, active)
        VALUES (p_name, p_model, p_dimension, NOT EXISTS (SELECT 1 FROM embedding_spaces WHERE active));
END $function$;
COMMENT ON FUNCTION create_embedding_space(text,text,integer,integer) IS 'Make the table of a space. `tokens` has the token vectors of a text: one int8 vector of 96 numbers for each token,
about 1.4 KB for a turn. They stay in the row up to the size of a page, so that reading a hundred candidates does not
read another table. To insert a vector into an HNSW index costs fifty times as much as storing it, so a vector enters
the index later, in the background and only for large tenants; `indexed` says that it has. Of a wide vector, the
indexes hold the signs: one bit for each dimension.';
