-- The delta of a thread: its net changes since a revision, as one reader may see them, and each reader's cursor.

CREATE TABLE delta_cursors (                        -- the revision of a thread that a reader was last told of
    tenant_id   uuid NOT NULL,
    thread_id   text NOT NULL,
    agent       text NOT NULL,
    rev         bigint NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    user_id     text NOT NULL DEFAULT '',           -- the user that the delta was about; '': all users
    -- the API key of the reader; 0: all keys that are bound to this agent alone
    key_id      uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- user_id comes early, so that an erasure finds the cursors of a user
    PRIMARY KEY (tenant_id, user_id, thread_id, agent, key_id)
) WITH (fillfactor = 70);
CREATE INDEX delta_cursors_of_key ON delta_cursors (tenant_id, key_id)
    WHERE key_id <> '00000000-0000-0000-0000-000000000000';
GRANT SELECT, INSERT, UPDATE, DELETE ON delta_cursors TO mnema_app;

-- Return whether memories of this type have no bullet.
CREATE FUNCTION outside_delta(p_type text) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN p_type IN ('turn', 'summary', 'chunk');

-- Return the active memory that took a superseded one's place, NULL if there is none any more.
CREATE FUNCTION active_successor(p_tenant uuid, p_id uuid) RETURNS memories LANGUAGE plpgsql STABLE AS $$
DECLARE
    r memories;
BEGIN
    FOR i IN 1 .. 100 LOOP
        SELECT * INTO r FROM memories WHERE tenant_id = p_tenant AND id = p_id;
        IF r.state = 'active' THEN RETURN r; END IF;
        IF r.superseded_by IS NULL THEN RETURN NULL; END IF;
        p_id := r.superseded_by;
    END LOOP;
    RETURN NULL;
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
--   active               purged                 deleted, in the same case if it was superseded before
--   hidden category      active                 updated, if its content changed after it became visible
--   anything else                               no row
--
-- A reader must see the category then and now. A memory that is gone has its text only if the text is the one of then.
-- If changes are missing, a memory may have been active then and its content another.
CREATE FUNCTION net_changes(p_tenant uuid, p_thread text, p_since bigint, p_categories text[], p_user bigint,
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
            WHEN s.changed THEN 'updated' END
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
       CASE WHEN t.kind <> 'deleted' AND NOT (t.kind = 'soft_deleted' AND t.retold) THEN left(t.text, 300) END,
       coalesce(t.importance_now, t.importance, 1), CASE WHEN t.kind = 'merged' THEN t.combined::int END,
       t.version, t.user_pk
FROM told t WHERE t.kind IS NOT NULL
$$;

-- Return a thread's delta for a reader: the revision where it starts (p_since, NULL: the reader's cursor), the revision
-- that the reader then stands at, whether changes in between are missing, and the p_limit most important net changes,
-- the latest first among equals, with the number of all (`total`). One row without a kind if there are none.
--
-- The revision told is the newest of a change that leaves a memory in a category of the reader: hidden changes do not
-- raise it. The function is STABLE, so all its statements read one snapshot: that of the statement that calls it.
CREATE FUNCTION read_delta(p_tenant uuid, p_thread text, p_since bigint, p_agent text, p_user text, p_key uuid,
                           p_categories text[], p_limit int)
    RETURNS TABLE (since_rev bigint, told_rev bigint, truncated boolean, total bigint, rev bigint,
        memory_id uuid, kind text,
                   category text, text text, importance int, combined int, version int, user_pk bigint)
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_user bigint := CASE WHEN p_user IS NOT NULL THEN coalesce(user_pk_of(p_tenant, p_user), -1) END;
    v_since bigint;
    v_told bigint;
    v_newest bigint;
    v_oldest bigint;       -- in the log
    v_pruned bigint;       -- of the reader's categories
    v_pruned_all bigint;
    v_truncated boolean;
BEGIN
    -- changes shown for all users (user '') were also shown for each user
    SELECT coalesce(p_since, r.cursor), greatest(n.rev, p.rev, e.rev,
        CASE WHEN p_since IS NULL THEN r.cursor END, 0), t.rev,
           o.rev, coalesce(p.rev, 0), coalesce((t.pruned->>'')::bigint, 0)
        INTO v_since, v_told, v_newest, v_oldest, v_pruned, v_pruned_all
        FROM (SELECT coalesce(max(c.rev), 0) AS cursor FROM delta_cursors c
              WHERE p_since IS NULL AND c.tenant_id = p_tenant AND c.user_id IN ('', p_user) AND c.thread_id = p_thread
                AND c.agent = p_agent AND c.key_id = p_key) r
        LEFT JOIN thread_revision t ON t.tenant_id = p_tenant AND t.thread_id = p_thread
        LEFT JOIN LATERAL (
            SELECT c.rev FROM change_log c
            WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND (v_user IS NULL OR c.user_pk = v_user)
              AND (p_categories IS NULL OR coalesce(c.category_after, c.category_before) = ANY (p_categories))
            ORDER BY c.rev DESC LIMIT 1) n ON true
        LEFT JOIN LATERAL (
            SELECT c.rev FROM change_log c WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread
            ORDER BY c.rev LIMIT 1) o ON true
        LEFT JOIN LATERAL (
            SELECT max(x.value::bigint) AS rev FROM jsonb_each_text(t.pruned) x
            WHERE x.key <> '' AND (p_categories IS NULL OR x.key = ANY (p_categories))) p ON true
        LEFT JOIN LATERAL (
            SELECT max(x.value::bigint) AS rev FROM jsonb_each_text(t.erased) x
            WHERE p_user IS NULL AND (p_categories IS NULL OR x.key = ANY (p_categories))) e ON true;
    -- rows that are missing without a note, as after a restored backup, may be of any category
    v_truncated := v_newest IS NOT NULL AND v_newest > v_since AND greatest(v_pruned, CASE
        WHEN coalesce(v_oldest - 1, v_newest) > v_pruned_all THEN coalesce(v_oldest - 1, v_newest) END) > v_since;
    -- A later revision than the reader was ever told of, for any user, was told before a restore of an earlier time.
    -- Hidden changes do not count: a reader could learn of them by trying revisions.
    IF p_since > v_told THEN
        v_truncated := v_truncated OR p_since > coalesce(CASE WHEN p_categories IS NULL THEN v_newest ELSE (
            SELECT max(known.rev) FROM (
                SELECT max(c.rev) AS rev FROM change_log c
                WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread
                  AND coalesce(c.category_after, c.category_before) = ANY (p_categories)
                UNION ALL
                SELECT max(x.value::bigint) FROM thread_revision t
                CROSS JOIN LATERAL (SELECT * FROM jsonb_each_text(t.pruned)
                                    UNION ALL SELECT * FROM jsonb_each_text(t.erased)) x
                WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread AND x.key = ANY (p_categories)) known) END, 0);
    END IF;
    IF v_told > v_since THEN
        RETURN QUERY
            SELECT v_since, v_told, v_truncated, count(*) OVER (), c.rev, c.memory_id, c.kind, c.category, c.text,
                c.importance,
                   c.combined, c.version, c.user_pk
            FROM net_changes(p_tenant, p_thread, v_since, p_categories, v_user, NOT v_truncated, v_oldest = 1) c
            ORDER BY c.importance DESC, c.rev DESC LIMIT p_limit;
        IF FOUND THEN RETURN; END IF;
    END IF;
    RETURN QUERY SELECT v_since, v_told, v_truncated, 0::bigint, NULL::bigint, NULL::uuid, NULL, NULL, NULL, NULL::int,
                        NULL::int, NULL::int, NULL::bigint;
END $$;
GRANT EXECUTE ON FUNCTION outside_delta(text), active_successor(uuid, uuid),
    net_changes(uuid, text, bigint, text[], bigint, boolean, boolean),
    read_delta(uuid, text, bigint, text, text, uuid, text[], int) TO mnema_app;
