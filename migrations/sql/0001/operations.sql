-- Operations: events, the installation's own row, and embedding spaces.

CREATE TABLE events (
    tenant_id  uuid NOT NULL,
    id         uuid NOT NULL,
    user_id    text,
    thread_id  text,
    node       text NOT NULL CHECK (node IN ('hotpath', 'context', 'episodic', 'worker')),
    op         text NOT NULL,
    status     text NOT NULL CHECK (status IN ('ok', 'error', 'skipped')),
    memory_id  text,
    category   text,
    sim        real,
    ts         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);                          -- partitions.sql
CREATE INDEX events_by_user ON events (tenant_id, user_id, ts DESC);
CREATE INDEX events_by_node ON events (tenant_id, node, ts DESC);
CREATE INDEX events_by_age ON events (tenant_id, ts);
GRANT SELECT, INSERT, DELETE ON events TO mnema_app;
GRANT UPDATE (thread_id) ON events TO mnema_app;  -- erase_threads

CREATE TABLE installation (                         -- one row, of no tenant
    only_row            boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret_fingerprint  bytea NOT NULL              -- of MNEMA_SECRET_KEY; readiness compares it on every replica
);
GRANT SELECT, INSERT ON installation TO mnema_app;

-- The schema that the last migration made. Every migration writes it anew (migrations/env.py); the server only reads
-- it.
CREATE TABLE schema_fingerprint (                   -- one row, of no tenant
    only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    revision     text NOT NULL,
    fingerprint  text NOT NULL,                     -- of the schema that the migrating code makes: migrations/schema
    server       integer NOT NULL,                  -- the major version of PostgreSQL, whose texts `objects` digests
    objects      jsonb NOT NULL,                    -- {kind: {name: digest}}: what the migration left in this database
    migrated_at  timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT ON schema_fingerprint TO mnema_app;

-- An embedding space holds the vectors of one model: a table vec_<name>, hash-partitioned by tenant, and functions of
-- its own, because a dynamic statement would be planned on every call. An operator adds a space beside the active one,
-- fills it, switches to it and drops the old one.
CREATE TABLE embedding_spaces (                     -- of the installation, not of a tenant
    name         text PRIMARY KEY,                  -- also the suffix of the table and the functions
    model        text NOT NULL,
    dimension    integer NOT NULL CHECK (dimension BETWEEN 1 AND 4000),
    active       boolean NOT NULL DEFAULT false,
    created_at   timestamptz NOT NULL DEFAULT now(),
    ready        boolean NOT NULL DEFAULT false     -- servers of its model may use it: it is, or was, the active one
);
CREATE UNIQUE INDEX embedding_spaces_one_active ON embedding_spaces (active) WHERE active;
GRANT SELECT ON embedding_spaces TO mnema_app;

-- Return the largest dimension of a vector that fits into a btree entry (2,704 bytes), from which an exact search reads
-- it.
CREATE FUNCTION widest_exact() RETURNS int LANGUAGE sql IMMUTABLE RETURN 1152;

-- Return the key of a thread in the table of a space; NULL for no thread.
CREATE FUNCTION thread_key(p_thread text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN hashtextextended(p_thread, 0);
GRANT EXECUTE ON FUNCTION thread_key(text) TO mnema_app;

-- Make the table of a space. `tokens` has the token vectors of a text: one int8 vector of 96 numbers for each token,
-- about 1.4 KB for a turn. They stay in the row up to the size of a page, so that reading a hundred candidates does not
-- read another table. To insert a vector into an HNSW index costs fifty times as much as storing it, so a vector enters
-- the index later, in the background and only for large tenants; `indexed` says that it has. Of a wide vector, the
-- indexes hold the signs: one bit for each dimension.
CREATE FUNCTION create_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $space$
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
END $space$;

-- Make the functions of a space that store vectors.
-- put_vectors_<space> stores vectors and tokens of existing memories. Of the memories p_changed, it also copies
-- category and state into every space, and deletes the vectors of a changed text from the other spaces. The memories
-- p_stale lose their vectors in every space, because their text is new and has no vector yet.
-- fill_vectors_<space> stores vectors and tokens that are missing, of each memory that still has the version which was
-- read: a concurrent change of the text brings its own vector. Returns how many.
-- index_vectors_<space> puts up to p_limit active vectors of a tenant into the approximate index. Returns how many.
CREATE FUNCTION create_put_vectors(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_others text;
BEGIN
    SELECT coalesce(string_agg(format($ddl$
    DELETE FROM %1$I WHERE tenant_id = p_tenant
        AND (memory_id = ANY (p_ids) AND memory_id = ANY (p_changed) OR memory_id = ANY (p_stale));
    UPDATE %1$I v SET category = m.category, state = m.state, indexed = false FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND v.tenant_id = p_tenant AND v.memory_id = m.id
          AND (v.category, v.state) IS DISTINCT FROM (m.category, m.state);$ddl$, 'vec_' || name), ''), '')
        INTO v_others FROM embedding_spaces WHERE name <> p_name;
    EXECUTE format($ddl$
CREATE OR REPLACE FUNCTION %1$I(p_tenant uuid, p_ids uuid[], p_vectors halfvec[], p_tokens bytea[], p_changed uuid[],
                                  p_stale uuid[])
    RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    IF p_stale <> '{}' THEN DELETE FROM %2$I WHERE tenant_id = p_tenant AND memory_id = ANY (p_stale); END IF;
    INSERT INTO %2$I AS v (tenant_id, user_pk, memory_id, type, category, state, thread_key, embedding, tokens)
        SELECT m.tenant_id, m.user_pk, m.id, m.type, m.category, m.state, thread_key(m.thread_id), x.embedding, x.tokens
        FROM unnest(p_ids, p_vectors, p_tokens) AS x(id, embedding, tokens) JOIN memories m ON m.tenant_id = p_tenant
            AND m.id = x.id
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
        SELECT m.user_pk, m.id, CASE WHEN m.fact_topic IS NULL THEN m.type ELSE 'fact' END AS type, m.category, m.state,
               thread_key(m.thread_id) AS thread_key, x.embedding, x.tokens
        FROM unnest(p_ids, p_versions, p_vectors, p_tokens) AS x(id, version, embedding, tokens)
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = x.id AND m.version = x.version
        ORDER BY m.id FOR SHARE OF m)
    INSERT INTO %2$I AS v (tenant_id, user_pk, memory_id, type, category, state, thread_key, embedding, tokens)
        SELECT p_tenant, user_pk, id, type, category, state, thread_key, embedding, tokens FROM same
        ON CONFLICT (tenant_id, memory_id) DO UPDATE SET tokens = excluded.tokens, indexed = false
            WHERE v.tokens IS NULL AND excluded.tokens IS NOT NULL;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $fn$
    $ddl$, 'fill_vectors_' || p_name, 'vec_' || p_name);
    EXECUTE format($ddl$
CREATE OR REPLACE FUNCTION %1$I(p_tenant uuid, p_limit int) RETURNS bigint LANGUAGE plpgsql AS $fn$
DECLARE
    v_ids uuid[];
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_ids := ARRAY(SELECT memory_id FROM %2$I WHERE tenant_id = p_tenant AND NOT indexed AND state = 'active'
        AND type <> 'chunk'
                   ORDER BY memory_id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    v_ids := v_ids || ARRAY(SELECT memory_id FROM %2$I WHERE tenant_id = p_tenant AND NOT indexed AND state = 'active'
        AND type = 'chunk'
                   ORDER BY memory_id LIMIT p_limit - cardinality(v_ids) FOR UPDATE SKIP LOCKED);
    UPDATE %2$I SET indexed = true WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $fn$
    $ddl$, 'index_vectors_' || p_name, 'vec_' || p_name);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %I, %I, %I TO mnema_app', 'put_vectors_'
        || p_name, 'fill_vectors_' || p_name,
                   'index_vectors_' || p_name);
END $space$;

-- Make a space: its table and all its functions.
CREATE FUNCTION add_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM create_embedding_space(p_name, p_model, p_dimension, p_partitions);
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- each function names all other spaces
    PERFORM create_journal(p_name), create_recall(p_name), create_chunk_recall(p_name);
END $$;

-- Drop what add_embedding_space made. The lock comes first, in the order in which writers take theirs.
CREATE FUNCTION drop_embedding_space(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_part text;
BEGIN
    LOCK TABLE memories IN ACCESS EXCLUSIVE MODE;
    DELETE FROM embedding_spaces WHERE name = p_name AND NOT active;
    IF NOT FOUND THEN RAISE EXCEPTION 'no embedding space % that is not active', p_name; END IF;
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- without the dropped space
    FOREACH v_part IN ARRAY ARRAY['neighbours', 'put_vectors', 'fill_vectors', 'index_vectors', 'record_changes',
        'apply_changes',
                                  'near', 'recall', 'near_chunks', 'find_chunks'] LOOP
        EXECUTE format('DROP FUNCTION %I', v_part || '_' || p_name);
    END LOOP;
    EXECUTE format('DROP TABLE %I', 'vec_' || p_name);
END $$;
