-- Agent state, part 1: LangGraph checkpoints. supervisor_checkpoints has one row for each thread of a user. Its `kind`
-- says whether a caller puts the state as a whole (`state`) or a checkpoint saver keeps checkpoints (`lineage`). The
-- checkpoints of a saver, the values of their channels and their pending writes are rows of the other tables, deleted
-- with the thread. Names are compared by their bytes, as savers do.

CREATE TABLE supervisor_checkpoints (
    tenant_id          uuid NOT NULL,
    id                 uuid NOT NULL,
    user_id            text NOT NULL,
    thread_id          text NOT NULL,
    checkpoint_data    jsonb NOT NULL,
    created_at         timestamptz DEFAULT now(),
    updated_at         timestamptz DEFAULT now(),
    kind               text NOT NULL DEFAULT 'state' CHECK (kind IN ('state', 'lineage')),
    version            bigint NOT NULL DEFAULT 1,
    checkpoint_binary  bytea,                       -- a state that is not JSON; checkpoint_data is {} then
    head               text COLLATE "C",            -- of a lineage: the newest checkpoint of the root namespace
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX supervisor_checkpoints_thread ON supervisor_checkpoints (tenant_id, user_id, thread_id);
CREATE INDEX supervisor_checkpoints_updated ON supervisor_checkpoints (tenant_id, updated_at DESC);
GRANT SELECT, INSERT, UPDATE, DELETE ON supervisor_checkpoints TO mnema_app;

CREATE TABLE checkpoint_lineage (
    tenant_id      uuid NOT NULL,
    thread_pk      uuid NOT NULL,                   -- supervisor_checkpoints.id
    ns             text COLLATE "C" NOT NULL,       -- '': the graph itself, else the path of a subgraph
    checkpoint_id  text COLLATE "C" NOT NULL,       -- a later checkpoint has a greater id
    parent_id      text COLLATE "C",
    type           text NOT NULL,                   -- the saver's encoding of `data`
    data           bytea NOT NULL,
    metadata       jsonb NOT NULL,                  -- lists are filtered by it
    versions       jsonb NOT NULL,                  -- {channel: version}; checkpoint_values has the values
    run_id         text GENERATED ALWAYS AS (metadata->>'run_id') STORED,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, thread_pk, ns, checkpoint_id),
    FOREIGN KEY (tenant_id, thread_pk) REFERENCES supervisor_checkpoints (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX checkpoint_lineage_newest ON checkpoint_lineage (tenant_id, checkpoint_id);
CREATE INDEX checkpoint_lineage_run ON checkpoint_lineage (tenant_id, run_id) WHERE run_id IS NOT NULL;
GRANT SELECT, INSERT, DELETE, UPDATE (parent_id, type, data, metadata, versions) ON checkpoint_lineage TO mnema_app;

-- `data` is EXTERNAL in both tables: compressing 20 KB costs more CPU than the rest of a put.
CREATE TABLE checkpoint_values (                    -- one row for a channel and version, shared by checkpoints
    tenant_id  uuid NOT NULL,
    thread_pk  uuid NOT NULL,
    ns         text COLLATE "C" NOT NULL,
    channel    text COLLATE "C" NOT NULL,
    version    text COLLATE "C" NOT NULL,
    type       text NOT NULL,
    data       bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (tenant_id, thread_pk, ns, channel, version),
    FOREIGN KEY (tenant_id, thread_pk) REFERENCES supervisor_checkpoints (tenant_id, id) ON DELETE CASCADE
);
GRANT SELECT, INSERT, DELETE, UPDATE (type, data) ON checkpoint_values TO mnema_app;

CREATE TABLE checkpoint_writes (                    -- writes of an unfinished step; they may precede the checkpoint
    tenant_id      uuid NOT NULL,
    thread_pk      uuid NOT NULL,
    ns             text COLLATE "C" NOT NULL,
    checkpoint_id  text COLLATE "C" NOT NULL,
    task_id        text COLLATE "C" NOT NULL,
    -- below 0: a special write, which may be replaced (error, interrupt, …)
    idx            integer NOT NULL,
    task_path      text COLLATE "C" NOT NULL,
    channel        text COLLATE "C" NOT NULL,
    type           text NOT NULL,
    data           bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (tenant_id, thread_pk, ns, checkpoint_id, task_id, idx),
    FOREIGN KEY (tenant_id, thread_pk) REFERENCES supervisor_checkpoints (tenant_id, id) ON DELETE CASCADE
);
GRANT SELECT, INSERT, DELETE, UPDATE (task_path, channel, type, data) ON checkpoint_writes TO mnema_app;

-- Put the whole state of a thread: p_json, or p_binary with an empty object as p_json. p_version NULL puts it whatever
-- is there, 0 only if the thread has no state, else only if the state has that version. Returns no row if the version
-- does not match; a row of kind `lineage` says that a saver keeps this thread.
CREATE FUNCTION put_state(p_tenant uuid, p_id uuid, p_user text, p_thread text, p_json text, p_binary bytea,
    p_version bigint)
    RETURNS TABLE (kind text, version bigint, created_at timestamptz, updated_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_version > 0 THEN
        RETURN QUERY UPDATE supervisor_checkpoints s
            SET checkpoint_data = p_json::jsonb, checkpoint_binary = p_binary, version = s.version + 1,
                updated_at = now()
            WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = p_thread AND s.kind = 'state'
              AND s.version = p_version
            RETURNING s.kind, s.version, s.created_at, s.updated_at;
    ELSE
        RETURN QUERY INSERT INTO supervisor_checkpoints AS s (tenant_id, id, user_id, thread_id, checkpoint_data,
            checkpoint_binary)
            VALUES (p_tenant, p_id, p_user, p_thread, p_json::jsonb, p_binary)
            ON CONFLICT (tenant_id, user_id, thread_id) DO UPDATE
                SET checkpoint_data = excluded.checkpoint_data, checkpoint_binary = excluded.checkpoint_binary,
                    version = s.version + 1, updated_at = now()
                WHERE s.kind = 'state' AND p_version IS NULL
            RETURNING s.kind, s.version, s.created_at, s.updated_at;
    END IF;
    IF NOT FOUND THEN
        RETURN QUERY SELECT s.kind, s.version, s.created_at, s.updated_at FROM supervisor_checkpoints s
            WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = p_thread AND s.kind = 'lineage';
    END IF;
END $$;

-- Return the state of a thread; of a saver's thread, a description of its newest checkpoint.
CREATE FUNCTION get_state(p_tenant uuid, p_user text, p_thread text)
    RETURNS TABLE (version bigint, state text, bytes bytea, created_at timestamptz, updated_at timestamptz)
        LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    RETURN QUERY SELECT s.version, s.checkpoint_data::text, s.checkpoint_binary, s.created_at, s.updated_at
        FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = p_thread;
END $$;

-- Delete a thread with its checkpoints if it has p_version or p_version is NULL. Returns `gone`, `conflict` or `none`.
CREATE FUNCTION delete_state(p_tenant uuid, p_user text, p_thread text, p_version bigint) RETURNS text
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    DELETE FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = p_thread
        AND (p_version IS NULL OR s.version = p_version);
    IF FOUND THEN RETURN 'gone'; END IF;
    PERFORM 1 FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user
        AND s.thread_id = p_thread;
    RETURN CASE WHEN FOUND THEN 'conflict' ELSE 'none' END;
END $$;

-- Delete those of the threads that a saver keeps, and return how many.
CREATE FUNCTION delete_lineages(p_tenant uuid, p_user text, p_threads text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    DELETE FROM supervisor_checkpoints s
        WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = ANY (p_threads) AND s.kind = 'lineage';
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;

-- Return the row of a saver's thread; insert it if it is missing. Raises MN409 if the thread has a whole state.
CREATE FUNCTION lineage_of(p_tenant uuid, p_id uuid, p_user text, p_thread text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    v_id uuid;
    v_kind text;
BEGIN
    SELECT id, kind INTO v_id, v_kind FROM supervisor_checkpoints
        WHERE tenant_id = p_tenant AND user_id = p_user AND thread_id = p_thread;
    IF v_id IS NULL THEN
        INSERT INTO supervisor_checkpoints AS s (tenant_id, id, user_id, thread_id, kind, checkpoint_data)
            VALUES (p_tenant, p_id, p_user, p_thread, 'lineage', '{}')
            ON CONFLICT (tenant_id, user_id, thread_id) DO UPDATE SET kind = s.kind RETURNING id, kind
                INTO v_id, v_kind;
    END IF;
    IF v_kind <> 'lineage' THEN
        RAISE EXCEPTION 'this thread holds a state that was put as a whole' USING ERRCODE = 'MN409';
    END IF;
    RETURN v_id;
END $$;

-- Put a checkpoint with the values of the changed channels; it replaces a checkpoint with the same id. Raises MN413 if
-- its values have more than p_most bytes.
CREATE FUNCTION put_checkpoint(p_tenant uuid, p_id uuid, p_user text, p_thread text, p_ns text, p_checkpoint text,
    p_parent text,
        p_type text, p_data bytea, p_metadata jsonb, p_versions jsonb, p_channels text[], p_channel_versions text[],
        p_types text[], p_values bytea[], p_most bigint)
    RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_thread uuid;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_ns = '' THEN
        INSERT INTO supervisor_checkpoints AS s (tenant_id, id, user_id, thread_id, kind, head, checkpoint_data)
            VALUES (p_tenant, p_id, p_user, p_thread, 'lineage', p_checkpoint,
                    jsonb_build_object('checkpoint_id', p_checkpoint, 'parent_checkpoint_id', p_parent,
                                       'metadata', p_metadata, 'channel_versions', p_versions))
            ON CONFLICT (tenant_id, user_id, thread_id) DO UPDATE
                SET head = greatest(s.head, excluded.head), version = s.version + 1, updated_at = now(),
                    checkpoint_data = CASE WHEN s.head > excluded.head THEN s.checkpoint_data
                        ELSE excluded.checkpoint_data END
                WHERE s.kind = 'lineage'
            RETURNING id INTO v_thread;
    END IF;
    IF v_thread IS NULL THEN v_thread := lineage_of(p_tenant, p_id, p_user, p_thread); END IF;
    INSERT INTO checkpoint_lineage (tenant_id, thread_pk, ns, checkpoint_id, parent_id, type, data, metadata, versions)
        VALUES (p_tenant, v_thread, p_ns, p_checkpoint, p_parent, p_type, p_data, p_metadata, p_versions)
        ON CONFLICT (tenant_id, thread_pk, ns, checkpoint_id) DO UPDATE
            SET parent_id = excluded.parent_id, type = excluded.type, data = excluded.data,
                metadata = excluded.metadata,
                versions = excluded.versions;
    INSERT INTO checkpoint_values AS v (tenant_id, thread_pk, ns, channel, version, type, data)
        SELECT p_tenant, v_thread, p_ns, n.* FROM unnest(p_channels, p_channel_versions, p_types, p_values) n
        ON CONFLICT (tenant_id, thread_pk, ns, channel, version) DO UPDATE
            SET type = excluded.type, data = excluded.data
            WHERE (v.type, v.data) IS DISTINCT FROM (excluded.type, excluded.data);
    PERFORM 1 FROM jsonb_each_text(p_versions) n CROSS JOIN LATERAL (
            SELECT octet_length(v.data) AS bytes FROM checkpoint_values v
            WHERE v.tenant_id = p_tenant AND v.thread_pk = v_thread AND v.ns = p_ns AND v.channel = n.key
                AND v.version = n.value
            LIMIT 1) held
        HAVING sum(held.bytes) > p_most;
    IF FOUND THEN RAISE EXCEPTION 'the checkpoint is too large' USING ERRCODE = 'MN413'; END IF;
END $$;

-- Put the writes of tasks. An existing write is kept, unless its idx is below 0. Raises MN413 if the writes of the
-- checkpoint have more than p_most bytes.
CREATE FUNCTION put_writes(p_tenant uuid, p_id uuid, p_user text, p_thread text, p_ns text, p_checkpoint text,
    p_tasks text[],
        p_idxs int[], p_paths text[], p_channels text[], p_types text[], p_values bytea[], p_most bigint)
    RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_thread uuid;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_thread := lineage_of(p_tenant, p_id, p_user, p_thread);
    INSERT INTO checkpoint_writes (tenant_id, thread_pk, ns, checkpoint_id, task_id, idx, task_path,
        channel, type, data)
        SELECT p_tenant, v_thread, p_ns, p_checkpoint, n.*
        FROM unnest(p_tasks, p_idxs, p_paths, p_channels, p_types, p_values) AS n(task, idx, path, channel, type, data)
        ORDER BY n.task, n.idx
        ON CONFLICT (tenant_id, thread_pk, ns, checkpoint_id, task_id, idx) DO UPDATE
            SET task_path = excluded.task_path, channel = excluded.channel, type = excluded.type, data = excluded.data
            WHERE excluded.idx < 0;
    PERFORM 1 FROM checkpoint_writes w
        WHERE w.tenant_id = p_tenant AND w.thread_pk = v_thread AND w.ns = p_ns AND w.checkpoint_id = p_checkpoint
        HAVING sum(octet_length(w.data)) > p_most;
    IF FOUND THEN RAISE EXCEPTION 'the writes of this checkpoint are too large' USING ERRCODE = 'MN413'; END IF;
END $$;

-- Return the values of a checkpoint, and its pending writes in the order in which they are applied.
CREATE FUNCTION checkpoint_contents(p_tenant uuid, p_thread uuid, p_ns text, p_checkpoint text, p_versions jsonb)
    RETURNS TABLE (channels text[], channel_types text[], channel_values bytea[], tasks text[], idxs int[],
        paths text[],
                   write_channels text[], write_types text[], write_values bytea[]) LANGUAGE sql STABLE AS $$
    SELECT h.*, w.* FROM (
        SELECT array_agg(n.key), array_agg(v.type), array_agg(v.data)
        -- one index probe each, however many versions there are
        FROM jsonb_each_text(p_versions) n CROSS JOIN LATERAL (
            SELECT c.type, c.data FROM checkpoint_values c
            WHERE c.tenant_id = p_tenant AND c.thread_pk = p_thread AND c.ns = p_ns AND c.channel = n.key
                AND c.version = n.value
            LIMIT 1) v) h,
       (SELECT array_agg(o.task_id), array_agg(o.idx), array_agg(o.task_path), array_agg(o.channel), array_agg(o.type),
               array_agg(o.data)
        FROM (SELECT * FROM checkpoint_writes c
              WHERE c.tenant_id = p_tenant AND c.thread_pk = p_thread AND c.ns = p_ns AND c.checkpoint_id = p_checkpoint
              ORDER BY c.task_path, c.task_id, c.idx) o) w;
$$;

-- Return a checkpoint, the newest of the namespace if p_checkpoint is NULL; no row if there is none.
CREATE FUNCTION get_checkpoint(p_tenant uuid, p_user text, p_thread text, p_ns text, p_checkpoint text)
    RETURNS TABLE (checkpoint_id text, parent_id text, type text, data bytea, channels text[], channel_types text[],
                   channel_values bytea[], tasks text[], idxs int[], paths text[], write_channels text[],
                   write_types text[],
                   write_values bytea[]) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_thread uuid;
    v_newest text;
    v_parent text;
    v_type text;
    v_data bytea;
    v_versions jsonb;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT s.id, CASE WHEN p_ns = '' THEN coalesce(p_checkpoint, s.head) ELSE p_checkpoint END INTO v_thread, v_newest
        FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = p_thread;
    IF v_newest IS NULL THEN
        SELECT max(l.checkpoint_id) INTO v_newest FROM checkpoint_lineage l
            WHERE l.tenant_id = p_tenant AND l.thread_pk = v_thread AND l.ns = p_ns;
    END IF;
    -- variables, not a subquery: only for them does the planner use the index under row-level security
    SELECT l.parent_id, l.type, l.data, l.versions INTO v_parent, v_type, v_data, v_versions FROM checkpoint_lineage l
        WHERE l.tenant_id = p_tenant AND l.thread_pk = v_thread AND l.ns = p_ns AND l.checkpoint_id = v_newest;
    IF NOT FOUND THEN RETURN; END IF;
    RETURN QUERY SELECT v_newest, v_parent, v_type, v_data, held.*
        FROM checkpoint_contents(p_tenant, v_thread, p_ns, v_newest, v_versions) held;
END $$;

-- Return checkpoints, the newest first. An argument that is NULL is no condition. p_filter lists metadata that must be
-- equal. p_after is [checkpoint, thread_pk, namespace] of the last one of the page before. A page has at most p_limit
-- checkpoints and, after the first, at most p_bytes; `more` says whether others follow.
CREATE FUNCTION list_checkpoints(p_tenant uuid, p_user text, p_thread text, p_ns text, p_checkpoint text, p_before text,
        p_filter jsonb, p_after text[], p_limit int, p_bytes bigint)
    RETURNS TABLE (user_id text, thread_id text, ns text, place text[], more boolean, checkpoint_id text,
        parent_id text,
                   type text, data bytea, channels text[], channel_types text[], channel_values bytea[], tasks text[],
                   idxs int[], paths text[], write_channels text[], write_types text[], write_values bytea[])
    LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    RETURN QUERY
        WITH found AS MATERIALIZED (
            SELECT s.user_id, s.thread_id, s.id, l.ns, l.checkpoint_id, l.versions, octet_length(l.data) AS own
            FROM checkpoint_lineage l JOIN supervisor_checkpoints s ON s.tenant_id = l.tenant_id AND s.id = l.thread_pk
            WHERE l.tenant_id = p_tenant AND s.tenant_id = p_tenant AND (p_user IS NULL OR s.user_id = p_user)
              AND (p_thread IS NULL OR s.thread_id = p_thread) AND (p_ns IS NULL OR l.ns = p_ns)
              AND (p_checkpoint IS NULL OR l.checkpoint_id = p_checkpoint)
              AND (p_before IS NULL OR l.checkpoint_id < p_before)
              AND (p_after IS NULL OR (l.checkpoint_id, l.thread_pk, l.ns) < (p_after[1], p_after[2]::uuid, p_after[3]))
              AND NOT EXISTS (SELECT 1 FROM jsonb_each(p_filter) f
                              WHERE coalesce(l.metadata->f.key, 'null') <> f.value)
            ORDER BY l.checkpoint_id DESC, l.thread_pk DESC, l.ns DESC LIMIT p_limit + 1),
        sized AS (
            SELECT f.*, row_number() OVER w AS place, sum(size.bytes) OVER w AS bytes, count(*) OVER () AS all_found
            FROM found f CROSS JOIN LATERAL (SELECT f.own
                + coalesce((SELECT sum(octet_length(v.data)) FROM jsonb_each_text(f.versions) n
                     JOIN checkpoint_values v ON v.tenant_id = p_tenant AND v.thread_pk = f.id AND v.ns = f.ns
                         AND v.channel = n.key AND v.version = n.value), 0)
                + coalesce((SELECT sum(octet_length(c.data)) FROM checkpoint_writes c
                     WHERE c.tenant_id = p_tenant AND c.thread_pk = f.id AND c.ns = f.ns
                       AND c.checkpoint_id = f.checkpoint_id), 0) AS bytes) size
            WINDOW w AS (ORDER BY f.checkpoint_id DESC, f.id DESC, f.ns DESC)),
        chosen AS (
            SELECT z.*, count(*) OVER () < all_found AS more FROM sized z
            WHERE z.place <= p_limit AND (z.bytes <= p_bytes OR z.place = 1))
        SELECT c.user_id, c.thread_id, c.ns, ARRAY[c.checkpoint_id, c.id::text, c.ns], c.more, l.checkpoint_id,
            l.parent_id, l.type,
               l.data, held.*
        FROM chosen c JOIN checkpoint_lineage l ON l.tenant_id = p_tenant AND l.thread_pk = c.id AND l.ns = c.ns
            AND l.checkpoint_id = c.checkpoint_id
        CROSS JOIN LATERAL checkpoint_contents(p_tenant, c.id, c.ns, c.checkpoint_id, c.versions) held
        ORDER BY c.place;
END $$;

-- Repair a thread after checkpoints were deleted: delete values that no checkpoint uses, clear parents that are gone,
-- and set the newest checkpoint; delete the thread if it has none. The caller holds the lock of the thread's row, so
-- that nothing is put meanwhile that relies on what goes.
CREATE FUNCTION settle_lineage(p_tenant uuid, p_thread uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH used AS MATERIALIZED (
        SELECT DISTINCT l.ns, n.key, n.value FROM checkpoint_lineage l, jsonb_each_text(l.versions) n
        WHERE l.tenant_id = p_tenant AND l.thread_pk = p_thread)
    DELETE FROM checkpoint_values v WHERE v.tenant_id = p_tenant AND v.thread_pk = p_thread
        AND NOT EXISTS (SELECT 1 FROM used u WHERE u.ns = v.ns AND u.key = v.channel AND u.value = v.version);
    UPDATE checkpoint_lineage l SET parent_id = NULL
        WHERE l.tenant_id = p_tenant AND l.thread_pk = p_thread AND l.parent_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM checkpoint_lineage p WHERE p.tenant_id = p_tenant AND p.thread_pk = p_thread AND p.ns = l.ns
                                                 AND p.checkpoint_id = l.parent_id);
    UPDATE supervisor_checkpoints s SET head = n.checkpoint_id, version = s.version + 1, updated_at = now(),
            checkpoint_data = CASE WHEN n.checkpoint_id IS NULL THEN '{}'::jsonb ELSE
                jsonb_build_object('checkpoint_id', n.checkpoint_id, 'parent_checkpoint_id', n.parent_id,
                                   'metadata', n.metadata, 'channel_versions', n.versions) END
        FROM (SELECT 1) one LEFT JOIN LATERAL (
            SELECT * FROM checkpoint_lineage l WHERE l.tenant_id = p_tenant AND l.thread_pk = p_thread AND l.ns = ''
            ORDER BY l.checkpoint_id DESC LIMIT 1) n ON true
        WHERE s.tenant_id = p_tenant AND s.id = p_thread;
    DELETE FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.id = p_thread
        AND NOT EXISTS (SELECT 1 FROM checkpoint_lineage l WHERE l.tenant_id = p_tenant AND l.thread_pk = p_thread)
        AND NOT EXISTS (SELECT 1 FROM checkpoint_writes w WHERE w.tenant_id = p_tenant AND w.thread_pk = p_thread);
END $$;

-- Delete the checkpoints of runs, with their writes; of one user, or of all if p_user is NULL. Returns how many.
CREATE FUNCTION delete_runs(p_tenant uuid, p_user text, p_runs text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_thread uuid;
    v_gone bigint;
    v_all bigint := 0;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    FOR v_thread IN SELECT s.id FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant
        AND (p_user IS NULL OR s.user_id = p_user)
            AND s.id IN (SELECT l.thread_pk FROM checkpoint_lineage l WHERE l.tenant_id = p_tenant
                AND l.run_id = ANY (p_runs))
            ORDER BY s.id FOR UPDATE LOOP
        WITH gone AS (
            DELETE FROM checkpoint_lineage l WHERE l.tenant_id = p_tenant AND l.thread_pk = v_thread
                AND l.run_id = ANY (p_runs)
            RETURNING l.ns, l.checkpoint_id),
        written AS (
            DELETE FROM checkpoint_writes w USING gone WHERE w.tenant_id = p_tenant AND w.thread_pk = v_thread
                AND w.ns = gone.ns
                AND w.checkpoint_id = gone.checkpoint_id)
        SELECT count(*) INTO v_gone FROM gone;
        v_all := v_all + v_gone;
        PERFORM settle_lineage(p_tenant, v_thread);
    END LOOP;
    RETURN v_all;
END $$;

-- Keep only the newest checkpoint of each namespace of the threads, with its writes. If it has channels that are stored
-- as changes (metadata.counters_since_delta_snapshot), keep also its ancestors back to the nearest one that has the
-- whole value of each of them. Returns how many checkpoints were deleted.
CREATE FUNCTION prune_lineages(p_tenant uuid, p_user text, p_threads text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_thread uuid;
    v_gone bigint;
    v_all bigint := 0;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    FOR v_thread IN SELECT s.id FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user
            AND s.thread_id = ANY (p_threads) AND s.kind = 'lineage' ORDER BY s.id FOR UPDATE LOOP
        WITH RECURSIVE chain AS (
            SELECT h.ns, h.checkpoint_id, h.parent_id, h.versions, 0 AS depth,
                   ARRAY (SELECT jsonb_object_keys(h.metadata->'counters_since_delta_snapshot')
                          WHERE jsonb_typeof(h.metadata->'counters_since_delta_snapshot') = 'object') AS wanting
            FROM (SELECT DISTINCT ON (l.ns) l.* FROM checkpoint_lineage l
                  WHERE l.tenant_id = p_tenant AND l.thread_pk = v_thread ORDER BY l.ns, l.checkpoint_id DESC) h
            UNION ALL
            SELECT p.ns, p.checkpoint_id, p.parent_id, p.versions, c.depth + 1, ARRAY (
                SELECT w FROM unnest(c.wanting) w WHERE NOT EXISTS (
                    SELECT 1 FROM checkpoint_values v WHERE v.tenant_id = p_tenant AND v.thread_pk = v_thread
                        AND v.ns = p.ns
                        AND v.channel = w AND v.version = p.versions->>w))
            FROM chain c JOIN checkpoint_lineage p ON p.tenant_id = p_tenant AND p.thread_pk = v_thread AND p.ns = c.ns
                AND p.checkpoint_id = c.parent_id AND p.checkpoint_id < c.checkpoint_id
            WHERE cardinality(c.wanting) > 0),
        gone AS (
            DELETE FROM checkpoint_lineage l WHERE l.tenant_id = p_tenant AND l.thread_pk = v_thread AND NOT EXISTS (
                SELECT 1 FROM chain c WHERE c.ns = l.ns AND c.checkpoint_id = l.checkpoint_id)
            RETURNING l.ns, l.checkpoint_id),
        written AS (
            DELETE FROM checkpoint_writes w USING gone WHERE w.tenant_id = p_tenant AND w.thread_pk = v_thread
                AND w.ns = gone.ns
                AND w.checkpoint_id = gone.checkpoint_id)
        SELECT count(*) INTO v_gone FROM gone;
        v_all := v_all + v_gone;
        IF v_gone > 0 THEN PERFORM settle_lineage(p_tenant, v_thread); END IF;
    END LOOP;
    RETURN v_all;
END $$;

-- Copy a thread to another thread of the same user; a copy replaces what has the same id. Returns how many checkpoints.
CREATE FUNCTION copy_lineage(p_tenant uuid, p_id uuid, p_user text, p_source text, p_target text) RETURNS bigint
    LANGUAGE plpgsql AS $$
DECLARE
    v_source uuid;
    v_target uuid;
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT s.id INTO v_source FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user
        AND s.thread_id = p_source AND s.kind = 'lineage';
    IF v_source IS NULL OR p_source = p_target THEN RETURN 0; END IF;
    v_target := lineage_of(p_tenant, p_id, p_user, p_target);
    PERFORM 1 FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.id IN (v_source, v_target)
        ORDER BY s.id FOR UPDATE;
    INSERT INTO checkpoint_values (tenant_id, thread_pk, ns, channel, version, type, data)
        SELECT tenant_id, v_target, ns, channel, version, type, data FROM checkpoint_values
        WHERE tenant_id = p_tenant AND thread_pk = v_source
        ON CONFLICT (tenant_id, thread_pk, ns, channel, version) DO UPDATE
            SET type = excluded.type, data = excluded.data;
    INSERT INTO checkpoint_writes (tenant_id, thread_pk, ns, checkpoint_id, task_id, idx, task_path,
        channel, type, data)
        SELECT tenant_id, v_target, ns, checkpoint_id, task_id, idx, task_path, channel, type, data
            FROM checkpoint_writes
        WHERE tenant_id = p_tenant AND thread_pk = v_source
        ON CONFLICT (tenant_id, thread_pk, ns, checkpoint_id, task_id, idx) DO UPDATE
            SET task_path = excluded.task_path, channel = excluded.channel, type = excluded.type, data = excluded.data;
    INSERT INTO checkpoint_lineage (tenant_id, thread_pk, ns, checkpoint_id, parent_id, type, data, metadata,
        versions, created_at)
        SELECT tenant_id, v_target, ns, checkpoint_id, parent_id, type, data, metadata, versions, created_at
            FROM checkpoint_lineage
        WHERE tenant_id = p_tenant AND thread_pk = v_source
        ON CONFLICT (tenant_id, thread_pk, ns, checkpoint_id) DO UPDATE
            SET parent_id = excluded.parent_id, type = excluded.type, data = excluded.data,
                metadata = excluded.metadata,
                versions = excluded.versions;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    PERFORM settle_lineage(p_tenant, v_target);
    RETURN v_count;
END $$;

GRANT EXECUTE ON FUNCTION put_state(uuid, uuid, text, text, text, bytea, bigint), get_state(uuid, text, text),
    delete_state(uuid, text, text, bigint), delete_lineages(uuid, text, text[]), lineage_of(uuid, uuid, text, text),
    put_checkpoint(uuid, uuid, text, text, text, text, text, text, bytea, jsonb, jsonb, text[], text[], text[],
        bytea[], bigint),
    put_writes(uuid, uuid, text, text, text, text, text[], int[], text[], text[], text[], bytea[], bigint),
    checkpoint_contents(uuid, uuid, text, text, jsonb), get_checkpoint(uuid, text, text, text, text),
    list_checkpoints(uuid, text, text, text, text, text, jsonb, text[], int, bigint), settle_lineage(uuid, uuid),
    delete_runs(uuid, text, text[]), prune_lineages(uuid, text, text[]),
        copy_lineage(uuid, uuid, text, text, text) TO mnema_app;
