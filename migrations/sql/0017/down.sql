DROP TRIGGER memories_counted_insert ON memories;
DROP TRIGGER memories_counted_update ON memories;
DROP TRIGGER memories_counted_delete ON memories;
DROP FUNCTION count_memories();
DROP FUNCTION fold_counts(uuid, text, bigint);
DROP FUNCTION recount_memories(uuid);
DROP TABLE memory_counts;
DROP FUNCTION agent_key(text);
CREATE INDEX memories_forgettable ON memories (tenant_id, updated_at) WHERE state = 'active' AND NOT pinned;
DROP INDEX memories_by_updated;
DROP INDEX memories_by_importance;

-- Return the tags and the metadata of a memory under its tenant: in the index each path begins with the tenant.
DROP INDEX memories_labels;
CREATE OR REPLACE FUNCTION labels_of(p_tenant uuid, p_tags text[], p_metadata jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN jsonb_build_object(p_tenant::text, jsonb_build_object('tags', p_tags, 'metadata', p_metadata));
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
    v_sample CONSTANT int := 200;
    v_first bigint := coalesce(p_user, 0);  -- bounds in variables, so that the index is used
    v_last bigint := coalesce(p_user, 9223372036854775807);
    v_ids uuid[];
BEGIN
    -- the rows behind the first p_limit tell in a millisecond that many match; who has no more rows is read whole
    IF p_limit IS NOT NULL AND (SELECT count(*) FILTER (WHERE memory_matches(m, p_filters)) FROM (
            SELECT * FROM memories w WHERE w.tenant_id = p_tenant AND w.user_pk BETWEEN v_first AND v_last
            AND w.state = 'active' AND w.type <> 'chunk' AND w.category = ANY (p_categories)
            OFFSET p_limit LIMIT v_sample) m) > v_sample / 8 THEN
        RETURN NULL;
    END IF;
    IF p_filters ? 'where_labels' AND (p_user IS NULL OR (SELECT count(*) FROM (
            SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk = p_user AND m.state = 'active'
            AND m.type <> 'chunk' LIMIT v_many) counted) = v_many) THEN
        v_ids := labelled_memories(p_user, p_categories, p_filters, coalesce(p_limit, v_many));
        IF v_ids IS NOT NULL OR (p_user IS NULL AND p_limit IS NOT NULL) THEN RETURN v_ids; END IF;
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
