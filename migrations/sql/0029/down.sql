-- Return the ids of a list, in its order. p_words: words with the tenant's or user's word of the index, or NULL.
-- p_filters: as in memory_matches. p_list:
--   state            of the memories; an active one past its `expires_at` counts as expired
--   sort, ascending  created_at, updated_at, importance (the older ones of equal importance come last) or id
--   after            {value, created_at, id} of the last row seen, as far as the order has them
CREATE OR REPLACE FUNCTION list_memories(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[],
    p_filters jsonb, p_list jsonb, p_limit int)
    RETURNS TABLE (memory_id uuid) LANGUAGE plpgsql STABLE ROWS 50 AS $$
BEGIN
    RETURN QUERY EXECUTE (SELECT format($list$
        SELECT m.id FROM memories m
        WHERE m.tenant_id = $2 AND %3$s AND ($4 IS NULL OR m.tsv @@ $4) AND ($5 IS NULL OR m.user_pk = $5)
          AND ($6 IS NULL OR m.category = ANY ($6)) AND memory_matches(m, $7) AND %1$s
        ORDER BY %2$s LIMIT $8$list$, o.behind, o.terms,
            CASE p_list->>'state' WHEN 'active' THEN 'm.state = ''active'' AND coalesce(m.expires_at > now(), true)'
                WHEN 'expired' THEN '(m.state = ''expired'' OR m.state = ''active'' AND m.expires_at <= now())'
                ELSE 'm.state = $3' END) FROM list_order(p_list) o)
        USING p_list, p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters, p_limit;
END $$;

-- Return whether a memory passes the filters of a request. A missing or null key is no filter. `where` is a path into
-- the list of a memory's values, in the order below; those that are not in `where_fields` are null, because making JSON
-- of them costs more than the path. If it is about the metadata alone, it is a path into them, because copying them
-- into a list costs as much again. Times are microseconds since 1970. The body is one expression, so that the planner
-- inlines it. A new value comes last: a server that runs during the migration knows the others by their places.
CREATE OR REPLACE FUNCTION memory_matches(m memories, f jsonb) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN f IS NULL OR (
        (f->>'agent_id' IS NULL OR m.agent_id = f->>'agent_id')
        AND (f->>'run_id' IS NULL OR m.run_id = f->>'run_id')
        AND (f->>'actor_id' IS NULL OR m.actor_id = f->>'actor_id')
        AND (f->>'role' IS NULL OR m.role = f->>'role')
        AND (f->>'thread_id' IS NULL OR m.thread_id = f->>'thread_id')
        -- in no thread, or knowledge about the user, whatever thread it was learnt in; turns and summaries stay in
        -- theirs
        AND (f->>'shared_thread' IS NULL OR m.thread_id IS NULL OR m.thread_id = f->>'shared_thread'
             OR m.type IN ('semantic', 'episodic', 'insight'))
        AND (f->'type' IS NULL OR f->'type' ? m.type)  -- one type, or several in an array
        AND (f->>'text_contains' IS NULL OR strpos(m.text, f->>'text_contains') > 0)
        AND (f->>'pinned' IS NULL OR m.pinned = (f->>'pinned')::boolean)
        AND (f->>'importance_min' IS NULL OR m.importance >= (f->>'importance_min')::int)
        AND (f->>'importance_max' IS NULL OR m.importance <= (f->>'importance_max')::int)
        AND (f->>'created_after' IS NULL OR m.created_at >= (f->>'created_after')::timestamptz)
        AND (f->>'created_before' IS NULL OR m.created_at < (f->>'created_before')::timestamptz)
        AND (f->>'updated_after' IS NULL OR m.updated_at >= (f->>'updated_after')::timestamptz)
        AND (f->>'updated_before' IS NULL OR m.updated_at < (f->>'updated_before')::timestamptz)
        AND (f->>'unexpired_at' IS NULL OR coalesce(m.expires_at > (f->>'unexpired_at')::timestamptz, true))
        AND (f->>'valid_at' IS NULL OR coalesce(m.valid_from <= (f->>'valid_at')::timestamptz, true)
             AND coalesce(m.valid_to > (f->>'valid_at')::timestamptz, true))
        AND (f->'exclude_ids' IS NULL OR NOT f->'exclude_ids' ? m.id::text)
        AND (f->'exclude_sources' IS NULL OR NOT coalesce(f->'exclude_sources' ? (m.source->>'source_id'), false))
        AND (f->>'before_seq' IS NULL OR m.seq IS NULL OR m.seq < (f->>'before_seq')::bigint
             OR m.thread_id IS DISTINCT FROM f->>'before_thread')
        AND (f->>'where' IS NULL OR jsonb_path_match(CASE WHEN f->'where_fields' = '["metadata"]' THEN m.metadata
            ELSE jsonb_build_array(
            CASE WHEN f->'where_fields' ? 'id' THEN m.id END,
            CASE WHEN f->'where_fields' ? 'text' THEN m.text END,
            CASE WHEN f->'where_fields' ? 'type' THEN m.type END,
            CASE WHEN f->'where_fields' ? 'category' THEN m.category END,
            CASE WHEN f->'where_fields' ? 'tags' THEN m.tags END,
            CASE WHEN f->'where_fields' ? 'metadata' THEN m.metadata END,
            CASE WHEN f->'where_fields' ? 'importance' THEN m.importance END,
            CASE WHEN f->'where_fields' ? 'pinned' THEN m.pinned END,
            CASE WHEN f->'where_fields' ? 'user_id' THEN m.user_id END,
            CASE WHEN f->'where_fields' ? 'thread_id' THEN m.thread_id END,
            CASE WHEN f->'where_fields' ? 'agent_id' THEN m.agent_id END,
            CASE WHEN f->'where_fields' ? 'run_id' THEN m.run_id END,
            CASE WHEN f->'where_fields' ? 'actor_id' THEN m.actor_id END,
            CASE WHEN f->'where_fields' ? 'role' THEN m.role END,
            CASE WHEN f->'where_fields' ? 'language' THEN m.language END,
            CASE WHEN f->'where_fields' ? 'state' THEN m.state END,
            CASE WHEN f->'where_fields' ? 'created_at' THEN extract(epoch FROM m.created_at) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'updated_at' THEN extract(epoch FROM m.updated_at) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'valid_from' THEN extract(epoch FROM m.valid_from) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'valid_to' THEN extract(epoch FROM m.valid_to) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'expires_at' THEN extract(epoch FROM m.expires_at) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'origin' THEN m.origin END
        ) END, (f->>'where')::jsonpath, f->'where_values', true))
    );

DROP FUNCTION list_indexed(text, bigint, tsquery, text[], jsonb, jsonb, int, int);
DROP FUNCTION list_searched(text, uuid, bigint, tsquery, text[], jsonb, jsonb, int, int);
DROP FUNCTION list_searches(uuid, tsquery, text[], jsonb, jsonb);
DROP FUNCTION list_conditions(bigint, tsquery, text[], jsonb, jsonb);
REVOKE EXECUTE ON FUNCTION hashed_labels(uuid, jsonb) FROM mnema_app;
DROP INDEX memories_by_language;
DROP INDEX memories_by_role;
DROP INDEX memories_by_type;
