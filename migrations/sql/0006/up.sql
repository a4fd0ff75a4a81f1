-- The time of which a memory is so in the world, and the states of one that is so no longer or never was.

ALTER TABLE memories ADD COLUMN valid_from timestamptz, ADD COLUMN valid_to timestamptz,
    ADD CONSTRAINT memories_valid_span CHECK (valid_from < valid_to),
    DROP CONSTRAINT memories_state_check,
    ADD CONSTRAINT memories_state_check
        CHECK (state IN ('active', 'superseded', 'retracted', 'expired', 'soft_deleted'));
GRANT UPDATE (valid_from, valid_to) ON memories TO mnema_app;
CREATE INDEX memories_expiring ON memories (tenant_id, expires_at, user_pk)
    WHERE state = 'active' AND expires_at IS NOT NULL;

-- The result has other columns, so these are made anew.
DROP FUNCTION read_answer(uuid, text, text[], jsonb, text[], int, uuid[], int, int);
DO $do$
DECLARE
    v_space record;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I', 'neighbours_' || v_space.name);
    END LOOP;
END $do$;

-- Return a memory as history keeps it and as the application reads it: without the text index and the internal user
-- key.
CREATE OR REPLACE FUNCTION memory_json(r memories) RETURNS jsonb LANGUAGE sql STABLE
    RETURN jsonb_build_object('id', r.id, 'user_id', r.user_id, 'thread_id', r.thread_id, 'seq', r.seq,
        'agent_id', r.agent_id, 'run_id', r.run_id, 'actor_id', r.actor_id, 'role', r.role, 'type', r.type,
        'category', r.category, 'text', r.text, 'steps_text', r.steps_text, 'importance', r.importance,
        'pinned', r.pinned, 'tags', r.tags, 'state', r.state, 'source', r.source, 'metadata', r.metadata,
        'superseded_by', r.superseded_by, 'purge_at', r.purge_at, 'version', r.version, 'created_at', r.created_at,
        'updated_at', r.updated_at, 'expires_at', r.expires_at, 'language', r.language,
        'valid_from', r.valid_from, 'valid_to', r.valid_to);
GRANT EXECUTE ON FUNCTION memory_json(memories) TO mnema_app;

-- Update a memory with the fields of p_change->'set' and return the new row.
CREATE OR REPLACE FUNCTION update_memory(p_old memories, p_change jsonb) RETURNS memories LANGUAGE plpgsql AS $$
DECLARE
    r memories := jsonb_populate_record(p_old, p_change->'set');
BEGIN
    UPDATE memories m SET text = r.text, steps_text = r.steps_text, text_hash = r.text_hash, category = r.category,
            importance = r.importance, pinned = r.pinned, tags = r.tags, state = r.state, source = r.source,
            metadata = r.metadata, superseded_by = r.superseded_by, purge_at = r.purge_at, expires_at = r.expires_at,
            language = r.language, valid_from = r.valid_from, valid_to = r.valid_to, version = m.version + 1,
            created_at = r.created_at, updated_at = r.updated_at
        WHERE m.tenant_id = p_old.tenant_id AND m.id = p_old.id RETURNING * INTO r;
    RETURN r;
END $$;
GRANT EXECUTE ON FUNCTION update_memory(memories, jsonb) TO mnema_app;

-- Return whether a memory passes the filters of a request. A missing or null key is no filter. The body is one
-- expression, so that the planner inlines it.
CREATE OR REPLACE FUNCTION memory_matches(m memories, f jsonb) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN f IS NULL OR (
        (f->>'agent_id' IS NULL OR m.agent_id = f->>'agent_id')
        AND (f->>'run_id' IS NULL OR m.run_id = f->>'run_id')
        AND (f->>'actor_id' IS NULL OR m.actor_id = f->>'actor_id')
        AND (f->>'role' IS NULL OR m.role = f->>'role')
        AND (f->>'language' IS NULL OR m.language = f->>'language')
        AND (f->>'thread_id' IS NULL OR m.thread_id = f->>'thread_id')
        -- in no thread, or knowledge about the user, whatever thread it was learnt in; turns and summaries stay in
        -- theirs
        AND (f->>'shared_thread' IS NULL OR m.thread_id IS NULL OR m.thread_id = f->>'shared_thread'
             OR m.type IN ('semantic', 'episodic', 'insight'))
        AND (f->'type' IS NULL OR f->'type' ? m.type)  -- one type, or several in an array
        AND (f->>'tag' IS NULL OR m.tags @> ARRAY[f->>'tag'])
        AND (f->>'pinned' IS NULL OR m.pinned = (f->>'pinned')::boolean)
        AND (f->>'importance_min' IS NULL OR m.importance >= (f->>'importance_min')::int)
        AND (f->>'importance_max' IS NULL OR m.importance <= (f->>'importance_max')::int)
        AND (f->>'updated_after' IS NULL OR m.updated_at >= (f->>'updated_after')::timestamptz)
        AND (f->>'updated_before' IS NULL OR m.updated_at < (f->>'updated_before')::timestamptz)
        AND (f->>'expires_after' IS NULL OR m.expires_at >= (f->>'expires_after')::timestamptz)
        AND (f->>'expires_before' IS NULL OR m.expires_at < (f->>'expires_before')::timestamptz)
        AND (f->>'unexpired_at' IS NULL OR coalesce(m.expires_at > (f->>'unexpired_at')::timestamptz, true))
        AND (f->>'valid_at' IS NULL OR coalesce(m.valid_from <= (f->>'valid_at')::timestamptz, true)
             AND coalesce(m.valid_to > (f->>'valid_at')::timestamptz, true))
        AND (f->'exclude_ids' IS NULL OR NOT f->'exclude_ids' ? m.id::text)
        AND (f->'exclude_sources' IS NULL OR NOT coalesce(f->'exclude_sources' ? (m.source->>'source_id'), false))
        AND (f->>'before_seq' IS NULL OR m.seq IS NULL OR m.seq < (f->>'before_seq')::bigint
             OR m.thread_id IS DISTINCT FROM f->>'before_thread')
    );
GRANT EXECUTE ON FUNCTION memory_matches(memories, jsonb) TO mnema_app, mnema_search;

-- Return the filters of a query, with a condition that leaves out expired memories if the user, or the tenant without
-- one, has an overdue one: active still, because no job has turned it yet. Without such a memory the filters stay as
-- they are, so that a query without filters keeps its faster statement.
CREATE FUNCTION live_filters(p_tenant uuid, p_user bigint, p_filters jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_first bigint := coalesce(p_user, 0);  -- bounds in variables, so that the index is used
    v_last bigint := coalesce(p_user, 9223372036854775807);
BEGIN
    IF EXISTS (SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk BETWEEN v_first AND v_last
               AND m.state = 'active' AND m.expires_at <= now()) THEN
        RETURN coalesce(p_filters, '{}') || jsonb_build_object('unexpired_at', now());
    END IF;
    RETURN p_filters;
END $$;
GRANT EXECUTE ON FUNCTION live_filters(uuid, bigint, jsonb) TO mnema_app;

-- Return the answer of a query, in this order: at most p_whole_limit memories of the categories p_whole; the memories
-- p_chosen that are still visible; at most p_related of the strongest relations of the first p_first of them, with
-- `via`, the memory that each is related to. A related memory may be a chosen one.
CREATE FUNCTION read_answer(p_tenant uuid, p_user text, p_categories text[], p_filters jsonb, p_whole text[],
    p_whole_limit int,
        p_chosen uuid[], p_related int, p_first int)
    RETURNS TABLE (part text, strength real, via uuid, id uuid, user_id text, thread_id text, seq bigint,
        agent_id text, run_id text,
        actor_id text, role text, type text, category text, text text, steps_text text, importance smallint,
            pinned boolean,
        tags text[], state text, source jsonb, metadata jsonb, superseded_by uuid, purge_at timestamptz, version int,
        created_at timestamptz, updated_at timestamptz, fact_topic text,
        expires_at timestamptz, language text, valid_from timestamptz, valid_to timestamptz)
    LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $fn$
#variable_conflict use_column
DECLARE
    v_user bigint;
    v_whole uuid[] := '{}';
    v_texts text[];
    v_others uuid[] := '{}';
    v_vias uuid[];
    v_strengths real[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := CASE WHEN p_user IS NOT NULL THEN coalesce(user_pk_of(p_tenant, p_user), -1) END;
    p_filters := live_filters(p_tenant, v_user, p_filters);
    IF p_whole <> '{}' THEN
        v_whole := ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant
            AND (v_user IS NULL OR m.user_pk = v_user)
            AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_whole) AND memory_matches(m, p_filters)
            ORDER BY m.pinned DESC, m.importance DESC, m.updated_at DESC, m.id LIMIT p_whole_limit);
    END IF;
    IF p_related > 0 AND p_chosen <> '{}' THEN
        v_texts := p_chosen[:p_first]::text[];
        SELECT array_agg(x.other), array_agg(x.via), array_agg(x.strength) INTO v_others, v_vias, v_strengths FROM (
            SELECT o.id AS other, e.via, e.strength
            FROM (SELECT d.* FROM (
                    SELECT DISTINCT ON (b.other) b.other, b.via, b.strength FROM (
                        SELECT r.to_id::uuid AS other, r.from_id::uuid AS via, r.strength FROM relations r
                            WHERE r.tenant_id = p_tenant AND r.from_id = ANY (v_texts)
                        UNION ALL
                        SELECT r.from_id::uuid, r.to_id::uuid, r.strength FROM relations r
                            WHERE r.tenant_id = p_tenant AND r.to_id = ANY (v_texts)) b
                    WHERE NOT b.other = ANY (v_whole) ORDER BY b.other, b.strength DESC, b.via) d
                  ORDER BY d.strength DESC, d.other OFFSET 0) e
            CROSS JOIN LATERAL (  -- from the strongest down, until there are enough
                SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.id = e.other AND m.state = 'active'
                AND m.category = ANY (p_categories) AND (v_user IS NULL OR m.user_pk = v_user)
                    AND memory_matches(m, p_filters) OFFSET 0) o
            ORDER BY e.strength DESC, e.other LIMIT p_related) x;
    END IF;
    RETURN QUERY SELECT a.part, a.strength, a.via, m.id, m.user_id, m.thread_id, m.seq, m.agent_id, m.run_id,
        m.actor_id, m.role,
        m.type, m.category, m.text, m.steps_text, m.importance, m.pinned, m.tags, m.state, m.source, m.metadata,
            m.superseded_by,
        m.purge_at, m.version, m.created_at, m.updated_at, m.fact_topic,
        m.expires_at, m.language, m.valid_from, m.valid_to
    FROM (SELECT 1 AS rank, 'whole' AS part, w.at, w.id, NULL::real AS strength, NULL::uuid AS via
              FROM unnest(v_whole) WITH ORDINALITY AS w(id, at)
          UNION ALL SELECT 2, 'chosen', c.at, c.id, NULL, NULL FROM unnest(p_chosen) WITH ORDINALITY AS c(id, at)
          UNION ALL SELECT 3, 'related', o.at, o.id, o.strength, o.via
              FROM unnest(v_others, v_strengths, v_vias) WITH ORDINALITY AS o(id, strength, via, at)) a
    JOIN memories m ON m.tenant_id = p_tenant AND m.id = a.id AND m.state = 'active' AND m.category = ANY (p_categories)
        AND (v_user IS NULL OR m.user_pk = v_user) AND memory_matches(m, p_filters)
    ORDER BY a.rank, a.at;
END $fn$;
GRANT EXECUTE ON FUNCTION read_answer(uuid, text, text[], jsonb, text[], int, uuid[], int, int) TO mnema_app;

-- Return the chunks p_chosen that may still be answered, with their places, and up to p_beside chunks before and after
-- each one in its file or turn. `hit` is the chosen one. A chunk that somebody stored without a source has no place.
-- One of a removed source is not answered, nor one whose text was changed, nor one of a turn that is not active, that
-- the filters leave out, or that has another text now.
CREATE OR REPLACE FUNCTION read_chunks(p_tenant uuid, p_user text, p_categories text[], p_filters jsonb,
    p_chosen uuid[], p_beside int)
    RETURNS TABLE (hit uuid, ordinal int, start_at int, end_at int, page int, heading text[], gap text, source_id uuid,
        file_id uuid, path text,
        turn_id uuid, id uuid, user_id text, thread_id text, seq bigint, agent_id text, run_id text, actor_id text,
            role text, type text,
        category text, text text, steps_text text, importance smallint, pinned boolean, tags text[], state text,
            source jsonb,
        metadata jsonb, superseded_by uuid, purge_at timestamptz, version int, created_at timestamptz,
            updated_at timestamptz)
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $fn$
#variable_conflict use_column
DECLARE
    v_users bigint[];
    v_hits uuid[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_users := CASE WHEN p_user IS NOT NULL THEN
        ARRAY(SELECT u.user_pk FROM users u WHERE u.tenant_id = p_tenant AND u.user_id IN (p_user, '_shared')) END;
    p_filters := live_filters(p_tenant, NULL, p_filters);
    v_hits := ARRAY(SELECT m.id FROM unnest(p_chosen) AS h(id) JOIN memories m ON m.tenant_id = p_tenant AND m.id = h.id
        WHERE m.state = 'active' AND m.type = 'chunk' AND m.category = ANY (p_categories)
          AND (v_users IS NULL OR m.user_pk = ANY (v_users)) AND memory_matches(m, p_filters - 'type'));
    RETURN QUERY
        WITH placed AS (  -- the chunks and the files or turns that they are of, if they may be answered
            SELECT m.id AS hit, c.file_id, c.turn_id, c.ordinal, f.path, f.source_id, c.memory_id IS NOT NULL AS known
            FROM unnest(v_hits) AS h(id) JOIN memories m ON m.tenant_id = p_tenant AND m.id = h.id
            LEFT JOIN chunks c ON c.tenant_id = p_tenant AND c.memory_id = h.id
            LEFT JOIN files f ON f.tenant_id = p_tenant AND f.id = c.file_id
            LEFT JOIN sources s ON s.tenant_id = p_tenant AND s.id = f.source_id
            LEFT JOIN memories t ON t.tenant_id = p_tenant AND t.id = c.turn_id
            WHERE CASE WHEN c.memory_id IS NULL THEN NOT coalesce(m.source ?| '{file_id,turn_id}', false)
                       WHEN c.turn_id IS NULL THEN s.removed_at IS NULL AND length(m.text) = c.end_at - c.start_at
                       ELSE t.state = 'active' AND memory_matches(t, p_filters - 'type')
                            AND substr(t.text, c.start_at + 1, c.end_at - c.start_at) = m.text END)
        SELECT p.hit, n.ordinal, n.start_at, n.end_at, n.page, n.heading, n.gap, p.source_id, p.file_id, p.path,
            p.turn_id, m.id, m.user_id,
            m.thread_id, m.seq, m.agent_id, m.run_id, m.actor_id, m.role, m.type, m.category, m.text, m.steps_text,
                m.importance,
            m.pinned, m.tags, m.state, m.source, m.metadata, m.superseded_by, m.purge_at, m.version,
                m.created_at, m.updated_at
        FROM placed p
        CROSS JOIN LATERAL (
            SELECT c.memory_id, c.ordinal, c.start_at, c.end_at, c.page, c.heading, c.gap FROM chunks c
                WHERE c.tenant_id = p_tenant
                AND c.file_id = p.file_id AND c.ordinal BETWEEN p.ordinal - p_beside AND p.ordinal + p_beside
            UNION ALL
            SELECT c.memory_id, c.ordinal, c.start_at, c.end_at, c.page, c.heading, c.gap FROM chunks c
                WHERE c.tenant_id = p_tenant
                AND c.turn_id = p.turn_id AND c.ordinal BETWEEN p.ordinal - p_beside AND p.ordinal + p_beside
            UNION ALL
            SELECT p.hit, NULL, NULL, NULL, NULL, NULL, NULL WHERE NOT p.known) n
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = n.memory_id AND m.state = 'active'
            AND m.category = ANY (p_categories)
            AND (v_users IS NULL OR m.user_pk = ANY (v_users))
                AND (NOT p.known OR length(m.text) = n.end_at - n.start_at)
        ORDER BY p.hit, n.ordinal;
END $fn$;
GRANT EXECUTE ON FUNCTION read_chunks(uuid, text, text[], jsonb, uuid[], int) TO mnema_app;


-- Return the ids of a list, in its order. p_words: words with the tenant's or user's word of the index, or NULL.
-- p_filters: as in memory_matches. p_list:
--   state                          of the memories; an active one past its `expires_at` counts as expired
--   metadata                       [[object, object?], …]: a memory contains one object of each pair
--   created_after, created_before  inclusive, exclusive
--   sort, ascending                created_at, updated_at, importance (the older ones of equal importance come last) or
-- id
--   after                          {value, created_at, id} of the last row seen, as far as the order has them
CREATE OR REPLACE FUNCTION list_memories(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[],
    p_filters jsonb, p_list jsonb, p_limit int)
    RETURNS TABLE (memory_id uuid) LANGUAGE plpgsql STABLE ROWS 50 AS $$
DECLARE
    v_columns text[] := CASE p_list->>'sort' WHEN 'updated_at' THEN '{updated_at,id}' WHEN 'importance'
        THEN '{importance,created_at,id}'
                                             WHEN 'id' THEN '{id}' ELSE '{created_at,id}' END;
    v_up boolean := coalesce((p_list->>'ascending')::boolean, false);
    v_metadata text;
    v_row text;
    v_after text;
    v_order text;
    v_live text := 'm.state = ''active'' AND coalesce(m.expires_at > now(), true)';
    v_expired text := '(m.state = ''expired'' OR m.state = ''active'' AND m.expires_at <= now())';
BEGIN
    SELECT string_agg(format('AND (m.metadata @> ($9->%1$s->0) OR m.metadata @> ($9->%1$s->1))', n - 1), ' ')
        INTO v_metadata
        FROM generate_series(1, jsonb_array_length(p_list->'metadata')) n;
    SELECT string_agg(format('m.%I', c), ', ' ORDER BY place),
           string_agg(format('($10->''after''->>%L)::%s', CASE place WHEN 1 THEN 'value' ELSE c END,
               CASE c WHEN 'importance' THEN 'smallint' WHEN 'id' THEN 'uuid' ELSE 'timestamptz' END), ', '
                   ORDER BY place),
           string_agg(format('m.%I %s', c, CASE WHEN v_up THEN 'ASC' ELSE 'DESC' END), ', ' ORDER BY place)
        INTO v_row, v_after, v_order FROM unnest(v_columns) WITH ORDINALITY u(c, place);
    RETURN QUERY EXECUTE format($list$
        SELECT m.id FROM memories m
        WHERE m.tenant_id = $1 AND %6$s AND ($3 IS NULL OR m.tsv @@ $3) AND ($4 IS NULL OR m.user_pk = $4)
          AND ($5 IS NULL OR m.category = ANY ($5)) AND memory_matches(m, $6)
          AND ($7 IS NULL OR m.created_at >= $7) AND ($8 IS NULL OR m.created_at < $8)
          %5$s AND ($10->'after' IS NULL OR (%1$s) %2$s (%3$s))
        ORDER BY %4$s LIMIT $11$list$, v_row, CASE WHEN v_up THEN '>' ELSE '<' END, v_after, v_order, v_metadata,
            CASE p_list->>'state' WHEN 'active' THEN v_live WHEN 'expired' THEN v_expired ELSE 'm.state = $2' END)
        USING p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters,
            (p_list->>'created_after')::timestamptz,
              (p_list->>'created_before')::timestamptz, p_list->'metadata', p_list, p_limit;
END $$;

-- Return the net changes of a thread after p_since, one row a memory, as a reader of p_categories (NULL: all) sees
-- them: of one user (p_user) or of all (NULL). p_complete: the log holds all changes after p_since; p_whole: and all
-- before. `content` is what a bullet shows: category, text, importance.
--
--   at p_since           now                    kind
--   -                    active                 created; updated if it replaces a memory that was there
--   active               active                 merged if it still stands for others, updated if its content is another
--   gone                 active                 restored
--   active               soft-deleted           soft_deleted
--   active               superseded             soft_deleted if the one that replaces it is not visible; else that one
-- tells it
--   active               expired                soft_deleted
--   active               retracted              deleted, with its text
--   active               purged                 deleted, in the same case if it was superseded before
--   hidden category      active                 updated, if its content changed after it became visible
--   anything else                               no row
--
-- A reader must see the category then and now. A memory that is gone has its text only if the text is the one of then.
-- If changes are missing, a memory may have been active then and its content another.
CREATE OR REPLACE FUNCTION net_changes(p_tenant uuid, p_thread text, p_since bigint, p_categories text[], p_user bigint,
                            p_complete boolean, p_whole boolean)
    RETURNS TABLE (rev bigint, memory_id uuid, kind text, category text, text text, importance int,
        combined int, version int,
                   user_pk bigint)
    LANGUAGE sql STABLE AS $$
WITH RECURSIVE logged AS MATERIALIZED (
    SELECT c.* FROM change_log c
    WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.rev > p_since AND outside_delta(c.type) IS NOT TRUE
      AND (p_user IS NULL OR c.user_pk = p_user)),
replaced AS MATERIALIZED (  -- a memory that another one replaces has no row of its own
    SELECT l.rev, o.id AS memory_id, l.memory_id AS heir, l.event,
        coalesce(l.category_before, l.category_after) AS category,
           l.user_pk
    FROM logged l CROSS JOIN jsonb_array_elements_text(l.meta->'replaces') o(id) WHERE l.meta ? 'replaces'),
lineage AS (
    SELECT r.heir, r.memory_id FROM replaced r
    UNION SELECT n.heir, r.memory_id FROM lineage n JOIN replaced r ON r.heir = n.memory_id),
steps AS (
    SELECT l.memory_id, l.rev, l.event, l.state_before, l.category_before, l.category_after, l.user_pk,
           l.meta->>'was' AS was, l.meta->>'now' AS now, l.meta->>'importance' AS importance,
           l.meta->>'combined' AS combined,
           NULL AS heir, l.event = 'created' OR l.category_before IS NULL AS new,
           l.event IN ('deleted', 'soft_deleted') AS gone,
           l.type
    FROM logged l
    UNION ALL
    SELECT r.memory_id, r.rev, 'superseded', 'active', r.category, r.category, r.user_pk, NULL, NULL, NULL, NULL,
        r.heir, false, true,
           NULL
    FROM replaced r),
ends AS (  -- all aggregates read the rows in one order: one sort
    SELECT s.memory_id::uuid AS id, max(s.rev) AS rev,
           array_agg(ARRAY[s.event, s.state_before, coalesce(s.category_before, s.category_after),
                           coalesce(s.category_after, s.category_before), s.importance] ORDER BY s.rev) AS rows,
           (array_agg(s.new ORDER BY s.rev))[1] AS new, count(*)::int AS last,
           (array_agg(s.was ORDER BY s.rev) FILTER (WHERE s.was IS NOT NULL))[1] AS was,
           (array_agg(s.now ORDER BY s.rev) FILTER (WHERE s.now IS NOT NULL))[count(s.now)::int] AS now,
           max(s.rev) FILTER (WHERE s.heir IS NOT NULL) > coalesce(max(s.rev) FILTER (WHERE s.event = 'restored'),
               0) AS merged_away,
           (array_agg(s.heir ORDER BY s.rev) FILTER (WHERE s.heir IS NOT NULL))[count(s.heir)::int]::uuid AS heir,
           max(s.user_pk) AS user_pk, max(s.type) AS type,
           bool_or(s.was IS NULL AND s.heir IS NULL AND NOT s.new) AS unknown,
           bool_or(NOT s.gone AND s.was IS DISTINCT FROM s.now AND s.category_before = ANY (p_categories)
                   AND s.category_after = ANY (p_categories)) AS changed_in_view,
           sum(s.combined::int - 1) FILTER (WHERE s.event = 'merged' AND (
               p_categories IS NULL OR s.category_after = ANY (p_categories))) AS told_combined
    FROM steps s GROUP BY s.memory_id),
states AS MATERIALIZED (
    SELECT e.*, e.rows[1][1] AS event, e.rows[1][2] AS state, e.rows[1][3] AS category,
        e.rows[e.last][4] AS last_category,
           e.rows[e.last][5]::int AS importance, coalesce(m.id, f.id) AS present,
           coalesce(m.state, CASE WHEN f.id IS NULL THEN 'purged' WHEN f.removed_at IS NULL THEN 'active'
               ELSE 'soft_deleted' END)
               AS state_now,
           coalesce(m.category, f.category) AS category_now, coalesce(m.text, fact_text(f)) AS text,
           m.importance AS importance_now,
           m.version,
           NOT p_complete OR e.unknown OR e.was IS DISTINCT FROM e.now AS changed,
           NOT p_complete OR e.unknown OR split_part(e.was, ':', 1)
           IS DISTINCT FROM split_part(e.now, ':', 1) AS retold,
           p_categories IS NULL OR e.rows[1][3] = ANY (p_categories) AS seen_then,
           p_categories IS NULL OR coalesce(m.category, f.category, e.rows[e.last][4]) = ANY (p_categories) AS seen_now
    FROM ends e
    LEFT JOIN memories m ON m.tenant_id = p_tenant AND m.id = e.id AND e.type IS DISTINCT FROM 'fact'
    LEFT JOIN facts f ON f.tenant_id = p_tenant AND f.id = e.id AND e.type = 'fact'),
told AS MATERIALIZED (  -- so that `kind` is computed once
    SELECT s.*, c.combined, CASE
        WHEN NOT s.seen_now THEN NULL
        WHEN s.state_now = 'active' THEN CASE
            WHEN c.combined > 1 THEN 'merged'
            WHEN NOT s.seen_then THEN CASE WHEN s.changed_in_view THEN 'updated' END
            WHEN s.new AND (s.event = 'created' OR EXISTS (
                SELECT FROM lineage n JOIN logged l ON l.memory_id = n.memory_id AND l.event = 'created'
                WHERE n.heir = s.id::text)) THEN 'created'
            WHEN s.new THEN 'updated'
            WHEN coalesce(s.state, CASE s.event WHEN 'restored' THEN 'soft_deleted' END, 'active') <> 'active'
                THEN 'restored'
            WHEN s.changed OR EXISTS (  -- it took the place of another one, which is gone still
                SELECT FROM replaced r LEFT JOIN memories o ON o.tenant_id = p_tenant AND o.id = r.memory_id::uuid
                WHERE r.heir = s.id::text AND r.event = 'updated' AND o.state IS DISTINCT FROM 'active')
                THEN 'updated' END
        WHEN NOT s.seen_then OR s.new THEN NULL
        WHEN p_complete AND coalesce(s.state, CASE s.event WHEN 'restored' THEN 'soft_deleted' END,
            'active') <> 'active' THEN NULL
        WHEN p_whole AND NOT EXISTS (  -- the thread told of it for the first time after p_since
            SELECT FROM change_log o WHERE o.tenant_id = p_tenant AND o.memory_id = s.id::text
                AND o.thread_id = p_thread
                AND o.rev <= p_since) THEN NULL
        WHEN s.merged_away AND EXISTS (
            SELECT FROM active_successor(p_tenant, s.heir) h
            WHERE h.id IS NOT NULL AND (p_categories IS NULL OR h.category = ANY (p_categories))) THEN NULL
        WHEN s.state_now = 'retracted' THEN 'deleted'
        WHEN s.present IS NOT NULL THEN 'soft_deleted'
        WHEN EXISTS (SELECT FROM users u WHERE u.tenant_id = p_tenant AND u.user_pk = s.user_pk)
            THEN 'deleted' END AS kind
    FROM states s CROSS JOIN LATERAL (
        SELECT CASE WHEN s.told_combined IS NULL THEN NULL ELSE 1 + coalesce((
            SELECT count(DISTINCT r.memory_id) FROM replaced r
            LEFT JOIN memories a ON a.tenant_id = p_tenant AND a.id = r.memory_id::uuid
            WHERE r.heir = s.id::text AND r.event = 'merged' AND (a.id IS NULL OR a.superseded_by = s.id)
            HAVING EXISTS (SELECT FROM replaced x WHERE x.heir = s.id::text AND x.event = 'merged')), s.told_combined)
                END AS combined) c)
SELECT t.rev, t.id, t.kind, coalesce(t.category_now, t.last_category),
       CASE WHEN NOT (t.kind IN ('deleted', 'soft_deleted') AND t.retold) THEN left(t.text, 300) END,
       coalesce(t.importance_now, t.importance, 1), CASE WHEN t.kind = 'merged' THEN t.combined::int END,
       t.version, t.user_pk
FROM told t WHERE t.kind IS NOT NULL
$$;

-- Make record_changes_<space> and apply_changes_<space>.
CREATE OR REPLACE FUNCTION create_journal(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE fill_places($ddl$
{{spaces/record_changes.sql}}
    $ddl$, jsonb_build_object('space', p_name));
    EXECUTE fill_places($ddl$
{{../0001/spaces/apply_changes.sql}}
    $ddl$, jsonb_build_object('space', p_name));
END $space$;

-- Make neighbours_<space>.
CREATE OR REPLACE FUNCTION create_neighbours(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE fill_places($ddl$
{{spaces/neighbours.sql}}
    $ddl$, jsonb_build_object('space', p_name));
END $space$;

-- Make near_<space> and recall_<space>.
CREATE OR REPLACE FUNCTION create_recall(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_all text := $all$vec_{space} v WHERE v.tenant_id = p_tenant AND v.state = 'active' AND v.type <> 'chunk'
        AND v.category = ANY (p_categories)$all$;
    v_few text := 'unnest(v_found) AS f(id) JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = f.id';
    v_matching text :=
        $matching$memories m JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = m.id AND v.state = 'active'
        WHERE m.tenant_id = p_tenant AND m.category = ANY (p_categories) AND m.state = 'active'
            AND m.type <> 'chunk'
        AND memory_matches(m, p_filters)$matching$;
    -- filters that the vectors' own index can apply, which is four times as fast
    v_threads text := v_all || $threads$ AND v.user_pk = v_user AND (v_thread IS NULL OR v.thread_key = v_thread)
        AND (v_shared IS NULL OR v.thread_key IS NULL OR v.thread_key = v_shared
            OR v.type IN ('semantic', 'episodic', 'insight'))
        AND (v_types IS NULL OR v.type = ANY (v_types))$threads$;
    v_active text := $active$SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant
        AND m.category = ANY (p_categories) AND m.state = 'active' AND m.type <> 'chunk'
        AND memory_matches(m, p_filters)$active$;
    v_places jsonb := search_places(p_name) || jsonb_build_object(
        'matching_memories', v_active,
        'nearest_of_user', nearest_sql(p_name, v_all || ' AND v.user_pk = v_user'),
        'nearest_of_tenant', nearest_sql(p_name, v_all),
        'nearest_matching', nearest_sql(p_name, v_matching),
        'nearest_found', nearest_sql(p_name, v_few),
        'nearest_of_threads', nearest_sql(p_name, v_threads));
BEGIN
    PERFORM '[1]'::halfvec;  -- load the extension, whose settings are named below
    EXECUTE fill_places($ddl$
{{../0001/spaces/near.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{spaces/recall.sql}}
    $ddl$, v_places);
END $space$;

SELECT create_journal(name), create_neighbours(name), create_recall(name), price_recall(name)
    FROM embedding_spaces;
