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

-- Make the functions of a space that store vectors: put_vectors_<space>, which names all other spaces,
-- fill_vectors_<space> and index_vectors_<space>.
CREATE FUNCTION create_put_vectors(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_places jsonb := jsonb_build_object('space', p_name, 'change_other_spaces', (
        SELECT coalesce(string_agg(fill_places($other$
    DELETE FROM vec_{other} WHERE tenant_id = p_tenant
        AND (memory_id = ANY (p_ids) AND memory_id = ANY (p_changed) OR memory_id = ANY (p_stale));
    UPDATE vec_{other} v SET category = m.category, state = m.state, indexed = false FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND v.tenant_id = p_tenant AND v.memory_id = m.id
          AND (v.category, v.state) IS DISTINCT FROM (m.category, m.state);$other$,
            jsonb_build_object('other', name)), ''), '')
        FROM embedding_spaces WHERE name <> p_name));
BEGIN
    EXECUTE fill_places($ddl$
{{spaces/put_vectors.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{spaces/fill_vectors.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{spaces/index_vectors.sql}}
    $ddl$, v_places);
END $space$;

-- Return the places that a space's functions of search share. Wide vectors are compared by their signs first, which an
-- index holds; then the vectors of the best are read.
CREATE FUNCTION search_places(p_name text) RETURNS jsonb LANGUAGE sql STABLE
    RETURN (SELECT CASE WHEN dimension > widest_exact() THEN jsonb_build_object(
            'dimension', dimension,
            'set_signs', format('v_signs := binary_quantize(p_vector)::bit(%s);', dimension),
            'distance', format('v.signs <~> binary_quantize(p_vector)::bit(%s)', dimension),
            'more', 8,
            'ef_search', 200)
        ELSE jsonb_build_object(
            'dimension', dimension,
            'set_signs', '',
            'distance', 'v.embedding <=> p_vector',
            'more', 1,
            'ef_search', 120)  -- of a million vectors, 120 find the same ten as 200
        END || jsonb_build_object('space', name)
        FROM embedding_spaces WHERE name = p_name);

-- Return the SQL of an exact search of p_source for the nearest vectors. `+ 0` keeps the planner from the approximate
-- index.
CREATE FUNCTION nearest_sql(p_name text, p_source text) RETURNS text LANGUAGE sql STABLE
    RETURN (SELECT replace(CASE WHEN dimension > widest_exact() THEN $wide$SELECT x.memory_id FROM (
            SELECT v.memory_id FROM {source} ORDER BY (v.signs <~> v_signs) + 0, v.memory_id LIMIT 8 * p_dense) s
        JOIN vec_{space} x ON x.tenant_id = p_tenant AND x.memory_id = s.memory_id
        ORDER BY x.embedding <=> p_vector, x.memory_id LIMIT p_dense$wide$
    ELSE 'SELECT v.memory_id FROM {source} ORDER BY (v.embedding <=> p_vector) + 0, v.memory_id LIMIT p_dense'
    END, '{source}', p_source) FROM embedding_spaces WHERE name = p_name);

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
