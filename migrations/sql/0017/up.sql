-- Lists and counts that do not grow with the tenant: each order of a list has an index, and memories are counted as
-- they change.

SET LOCAL statement_timeout = 0;  -- a large table takes long

-- The state comes before the order, so that a list of few memories among many of another state is found at once.
CREATE INDEX memories_by_importance ON memories (tenant_id, state, importance, created_at, id);
CREATE INDEX memories_by_updated ON memories (tenant_id, state, updated_at, id);
DROP INDEX memories_forgettable;  -- memories_by_updated serves its statement

-- The numbers of active memories by category and agent: the sum of the rows of a key. Each change adds a row, so it
-- waits for no other change. Some changes replace the rows of their keys by one. `changed_at` is the latest
-- `updated_at` of an active memory that a row stands for.
CREATE TABLE memory_counts (
    tenant_id  uuid NOT NULL,
    category   text NOT NULL,
    agent_key  bigint NOT NULL,  -- hash of the agent's name; 0: no agent
    id         uuid NOT NULL DEFAULT gen_random_uuid(),
    memories   bigint NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, category, agent_key, id)
);
ALTER TABLE memory_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory_counts USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory_counts TO mnema_app;
SELECT plan_for_largest_tenant('memory_counts');

-- Return the key of an agent in memory_counts.
CREATE FUNCTION agent_key(p_agent text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(hashtextextended(p_agent, 0), 0);
GRANT EXECUTE ON FUNCTION agent_key(text) TO mnema_app;

-- Replace the rows of a key by one. Leave out rows that another transaction holds.
CREATE FUNCTION fold_counts(p_tenant uuid, p_category text, p_agent bigint) RETURNS void LANGUAGE sql AS $$
    WITH held AS MATERIALIZED (
        SELECT c.id FROM memory_counts c
        WHERE c.tenant_id = p_tenant AND c.category = p_category AND c.agent_key = p_agent FOR UPDATE SKIP LOCKED),
    gone AS (
        DELETE FROM memory_counts c USING held h
        WHERE c.tenant_id = p_tenant AND c.category = p_category AND c.agent_key = p_agent AND c.id = h.id
        RETURNING c.memories, c.changed_at)
    INSERT INTO memory_counts (tenant_id, category, agent_key, memories, changed_at)
        SELECT p_tenant, p_category, p_agent, sum(g.memories), max(g.changed_at) FROM gone g HAVING count(*) > 0
$$;
GRANT EXECUTE ON FUNCTION fold_counts(uuid, text, bigint) TO mnema_app;

-- Count the memories that a statement changed. One statement in 16 folds its keys.
CREATE FUNCTION count_memories() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF tg_op = 'INSERT' THEN
        INSERT INTO memory_counts (tenant_id, category, agent_key, memories, changed_at)
            SELECT n.tenant_id, n.category, agent_key(n.agent_id), count(*), max(n.updated_at)
            FROM new_rows n WHERE n.state = 'active' GROUP BY 1, 2, 3;
    ELSIF tg_op = 'DELETE' THEN
        INSERT INTO memory_counts (tenant_id, category, agent_key, memories, changed_at)
            SELECT o.tenant_id, o.category, agent_key(o.agent_id), -count(*), max(o.updated_at)
            FROM old_rows o WHERE o.state = 'active' GROUP BY 1, 2, 3;
    ELSE
        INSERT INTO memory_counts (tenant_id, category, agent_key, memories, changed_at)
            SELECT c.tenant_id, c.category, agent_key(c.agent_id), sum(c.memories), max(c.updated_at) FROM (
                SELECT n.tenant_id, n.category, n.agent_id, n.updated_at, 1 AS memories
                FROM new_rows n WHERE n.state = 'active'
                UNION ALL SELECT o.tenant_id, o.category, o.agent_id, o.updated_at, -1
                FROM old_rows o WHERE o.state = 'active') c
            GROUP BY 1, 2, 3;
    END IF;
    IF random() >= 1.0 / 16 THEN RETURN NULL; END IF;
    IF tg_op <> 'INSERT' THEN
        PERFORM fold_counts(k.tenant_id, k.category, k.agent_key) FROM (
            SELECT DISTINCT o.tenant_id, o.category, agent_key(o.agent_id) AS agent_key FROM old_rows o) k;
    END IF;
    IF tg_op <> 'DELETE' THEN
        PERFORM fold_counts(k.tenant_id, k.category, k.agent_key) FROM (
            SELECT DISTINCT n.tenant_id, n.category, agent_key(n.agent_id) AS agent_key FROM new_rows n) k;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER memories_counted_insert AFTER INSERT ON memories REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_memories();
CREATE TRIGGER memories_counted_update AFTER UPDATE ON memories REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_memories();
CREATE TRIGGER memories_counted_delete AFTER DELETE ON memories REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_memories();

-- Count the memories of a tenant anew, while nobody changes any.
CREATE FUNCTION recount_memories(p_tenant uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE memories IN SHARE MODE;
    DELETE FROM memory_counts WHERE tenant_id = p_tenant;
    INSERT INTO memory_counts (tenant_id, category, agent_key, memories, changed_at)
        SELECT m.tenant_id, m.category, agent_key(m.agent_id), count(*), max(m.updated_at)
        FROM memories m WHERE m.tenant_id = p_tenant AND m.state = 'active' GROUP BY 1, 2, 3;
END $$;
DO $$
DECLARE
    v_tenant record;
BEGIN
    FOR v_tenant IN SELECT id FROM list_tenants() LOOP  -- row-level security binds the owner too
        PERFORM set_config('app.tenant_id', v_tenant.id::text, true);
        PERFORM recount_memories(v_tenant.id);
    END LOOP;
    PERFORM set_config('app.tenant_id', '', true);
END $$;

-- Return the tags, the metadata and the names of their keys of a memory under its tenant: in the index each path begins
-- with the tenant.
DROP INDEX memories_labels;
CREATE OR REPLACE FUNCTION labels_of(p_tenant uuid, p_tags text[], p_metadata jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN jsonb_build_object(p_tenant::text, jsonb_build_object('tags', p_tags, 'metadata', p_metadata,
        'keys', jsonb_path_query_array(p_metadata, '$.keyvalue().key', '{}', true)));
CREATE INDEX memories_labels ON memories USING gin (labels_of(tenant_id, tags, metadata) jsonb_path_ops)
    WHERE state = 'active' AND (tags <> '{}' OR metadata <> '{}');

-- Return the active memories, no chunks, of a user or of all (NULL) that match the filters; at most p_limit (NULL:
-- all), or NULL if they seem to be more. Its plan knows the filters, so indexes serve them. The index of labels serves
-- who has many memories, if few have the labels.
CREATE OR REPLACE FUNCTION matching_memories(
    p_tenant uuid, p_user bigint, p_categories text[], p_filters jsonb, p_limit int) RETURNS uuid[]
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan SET random_page_cost = 1.1 AS $$
DECLARE
    v_many CONSTANT int := 5000;
    v_few CONSTANT int := 500;
    v_sample CONSTANT int := 200;
    v_first bigint := coalesce(p_user, 0);  -- bounds in variables, so that the index is used
    v_last bigint := coalesce(p_user, 9223372036854775807);
    v_labels jsonpath := CASE WHEN p_filters ? 'where_labels'
        THEN format('$."%s" ? (%s)', p_tenant, p_filters->>'where_labels')::jsonpath END;
    v_matching int;
    v_labelled int;
    v_ids uuid[];
BEGIN
    -- the rows behind the first few tell in a millisecond that many match, or that many have the labels, of which the
    -- index would read all before the first row; who has no more rows is read whole
    SELECT count(*) FILTER (WHERE memory_matches(m, p_filters)),
           count(*) FILTER (WHERE labels_of(m.tenant_id, m.tags, m.metadata) @? v_labels)
        INTO v_matching, v_labelled FROM (
            SELECT * FROM memories w WHERE w.tenant_id = p_tenant AND w.user_pk BETWEEN v_first AND v_last
            AND w.state = 'active' AND w.type <> 'chunk' AND w.category = ANY (p_categories)
            OFFSET coalesce(p_limit, v_few) LIMIT v_sample) m;
    IF p_limit IS NOT NULL AND v_matching > v_sample / 8 THEN RETURN NULL; END IF;
    IF v_labels IS NOT NULL AND v_labelled <= v_sample / 8 AND (p_user IS NULL OR (SELECT count(*) FROM (
            SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk = p_user AND m.state = 'active'
            AND m.type <> 'chunk' LIMIT v_many) counted) = v_many) THEN
        v_ids := labelled_memories(p_user, p_categories, p_filters, v_many);
        IF v_ids IS NOT NULL OR (p_user IS NULL AND p_limit IS NOT NULL) THEN
            RETURN v_ids[:coalesce(p_limit, v_many)];
        END IF;
    END IF;
    IF p_user IS NULL THEN
        RETURN ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant
            AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_categories)
            AND memory_matches(m, p_filters) LIMIT p_limit);
    END IF;
    RETURN ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk = p_user
        AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_categories)
        AND memory_matches(m, p_filters) LIMIT p_limit);
END $$;
