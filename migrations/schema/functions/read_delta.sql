CREATE OR REPLACE FUNCTION public.read_delta(p_tenant uuid, p_thread text, p_since bigint, p_agent text, p_user text, p_key uuid, p_categories text[], p_limit integer)
 RETURNS TABLE(since_rev bigint, told_rev bigint, truncated boolean, total bigint, rev bigint, memory_id uuid, kind text, category text, text text, importance integer, combined integer, version integer, user_pk bigint)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
END $function$;
COMMENT ON FUNCTION read_delta(uuid,text,bigint,text,text,uuid,text[],integer) IS 'Return a thread''s delta for a reader: the revision where it starts (p_since, NULL: the reader''s cursor), the revision
that the reader then stands at, whether changes in between are missing, and the p_limit most important net changes,
the latest first among equals, with the number of all (`total`). One row without a kind if there are none.

The revision told is the newest of a change that leaves a memory in a category of the reader: hidden changes do not
raise it. The function is STABLE, so all its statements read one snapshot: that of the statement that calls it.';
