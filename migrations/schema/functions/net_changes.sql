CREATE OR REPLACE FUNCTION public.net_changes(p_tenant uuid, p_thread text, p_since bigint, p_categories text[], p_user bigint, p_complete boolean, p_whole boolean)
 RETURNS TABLE(rev bigint, memory_id uuid, kind text, category text, text text, importance integer, combined integer, version integer, user_pk bigint)
 LANGUAGE sql
 STABLE
AS $function$
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
$function$;
COMMENT ON FUNCTION net_changes(uuid,text,bigint,text[],bigint,boolean,boolean) IS 'Return the net changes of a thread after p_since, one row a memory, as a reader of p_categories (NULL: all) sees
them: of one user (p_user) or of all (NULL). p_complete: the log holds all changes after p_since; p_whole: and all
before. `content` is what a bullet shows: category, text, importance.

at p_since           now                    kind
-                    active                 created; updated if it replaces a memory that was there
active               active                 merged if it still stands for others, updated if its content is another
gone                 active                 restored
active               soft-deleted           soft_deleted
active               superseded             soft_deleted if the one that replaces it is not visible; else that one
tells it
active               expired                soft_deleted
active               retracted              deleted, with its text
active               purged                 deleted, in the same case if it was superseded before
hidden category      active                 updated, if its content changed after it became visible
anything else                               no row

A reader must see the category then and now. A memory that is gone has its text only if the text is the one of then.
If changes are missing, a memory may have been active then and its content another.';
