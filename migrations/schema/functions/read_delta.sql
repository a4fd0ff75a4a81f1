CREATE OR REPLACE FUNCTION public.read_delta(p_tenant uuid, p_thread text, p_since bigint, p_agent text, p_user text, p_key uuid, p_categories text[], p_limit integer)
 RETURNS TABLE(since_rev bigint, told_rev bigint, truncated boolean, total bigint, rev bigint, memory_id uuid, kind text, category text, text text, importance integer, combined integer)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
#variable_conflict use_column
DECLARE
    v_user bigint := CASE WHEN p_user IS NOT NULL THEN coalesce(user_pk_of(p_tenant, p_user), -1) END;
    v_cursor bigint := 0;
    v_since bigint := p_since;
    v_told bigint;
    v_oldest bigint;
    v_newest bigint;
    v_pruned bigint;       -- of the reader's categories
    v_pruned_all bigint;
    v_erased bigint;
    v_lost bigint;         -- the newest revision that is missing without a note, as after a restored backup
    v_truncated boolean;
BEGIN
    SELECT t.rev, coalesce((t.pruned->>'')::bigint, 0), coalesce((
            SELECT max(p.value::bigint) FROM jsonb_each_text(t.pruned) p
            WHERE p.key <> '' AND (p_categories IS NULL OR p.key = ANY (p_categories))), 0), (
            SELECT max(e.value::bigint) FROM jsonb_each_text(t.erased) e
            WHERE p_user IS NULL AND (p_categories IS NULL OR e.key = ANY (p_categories)))
        INTO v_newest, v_pruned_all, v_pruned, v_erased
        FROM thread_revision t WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread;
    IF v_since IS NULL THEN  -- changes shown for all users (user '') were also shown for each user
        SELECT coalesce(max(c.rev), 0) INTO v_cursor FROM delta_cursors c
            WHERE c.tenant_id = p_tenant AND c.user_id IN ('', p_user) AND c.thread_id = p_thread AND c.agent = p_agent
              AND c.key_id = p_key;
        v_since := v_cursor;
    END IF;
    IF v_newest IS NULL THEN
        RETURN QUERY SELECT v_since, v_cursor, false, 0::bigint, NULL::bigint, NULL::uuid, NULL, NULL, NULL, NULL::int, NULL::int;
        RETURN;
    END IF;
    SELECT c.rev INTO v_told FROM change_log c
        WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND (v_user IS NULL OR c.user_pk = v_user)
          AND (p_categories IS NULL OR coalesce(c.category_after, c.category_before) = ANY (p_categories))
        ORDER BY c.rev DESC LIMIT 1;
    v_told := greatest(v_told, v_pruned, v_erased, v_cursor);
    v_oldest := (SELECT min(c.rev) FROM change_log c WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread);
    v_lost := coalesce(v_oldest - 1, v_newest);
    IF v_lost <= v_pruned_all THEN v_lost := 0; END IF;
    v_truncated := v_newest > v_since AND greatest(v_pruned, v_lost) > v_since;
    RETURN QUERY
        SELECT v_since, v_told, v_truncated, coalesce(n.total, 0), n.rev, n.memory_id, n.kind, n.category, n.text, n.importance,
               n.combined
        FROM (SELECT) one LEFT JOIN (
            SELECT c.*, count(*) OVER () AS total
            FROM net_changes(p_tenant, p_thread, v_since, p_categories, v_user, NOT v_truncated, v_oldest = 1) c
            WHERE v_told > v_since
            ORDER BY c.importance DESC, c.rev DESC LIMIT p_limit) n ON true
        ORDER BY n.importance DESC, n.rev DESC;
END $function$;
