-- Return the best p_wanted chunks by vector (`near`) and by words (`worded`, with their `ranks`).
-- Each user is searched alone, so that a few own chunks are compared one by one beside a hundred thousand shared ones.
-- Chunks of a removed source are left out, and of turns that the filters leave out.
CREATE OR REPLACE FUNCTION find_chunks_{space}(
    p_tenant uuid, p_user text, p_vector halfvec, p_categories text[], p_filters jsonb, p_query text,
    p_wanted int, p_exact int, OUT near uuid[], OUT worded uuid[], OUT ranks real[])
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    p_dense CONSTANT int := p_wanted;  -- the name that nearest_sql uses
    v_signs bit({dimension});
    v_thread bigint := thread_key(p_filters->>'thread_id');
    v_shared bigint := thread_key(p_filters->>'shared_thread');
    -- the filters that neither the vectors' table nor the places below apply
    v_filters jsonb := nullif(p_filters - '{type,thread_id,shared_thread,embedded,before_seq,before_thread}'::text[],
        '{}');
    v_removed jsonb := (SELECT jsonb_build_object('exclude_sources', jsonb_agg(s.id)) FROM sources s
                        WHERE s.tenant_id = p_tenant AND s.removed_at IS NOT NULL HAVING count(*) > 0);
    v_users bigint[];
    v_user bigint;
    v_first bigint;
    v_last bigint;
    v_part uuid[];
BEGIN
    near := '{}';
    {set_signs}
    v_filters := CASE WHEN v_removed IS NULL THEN v_filters ELSE coalesce(v_filters, '{}') || v_removed END;
    v_users := CASE WHEN p_user IS NULL THEN ARRAY[NULL::bigint]
                    ELSE ARRAY(SELECT u.user_pk FROM users u WHERE u.tenant_id = p_tenant
                        AND u.user_id IN (p_user, '_shared')) END;
    FOREACH v_user IN ARRAY v_users LOOP
        v_first := coalesce(v_user, 0);  -- bounds in variables, so that the index is used
        v_last := coalesce(v_user, 9223372036854775807);
        IF p_vector IS NOT NULL THEN
            v_part := NULL;
            IF v_thread IS NOT NULL THEN
                v_part := ARRAY({nearest_of_thread});
            ELSIF (SELECT count(*) FROM (SELECT FROM memories m WHERE m.tenant_id = p_tenant
                AND m.user_pk BETWEEN v_first AND v_last
                                      AND m.state = 'active' AND m.type = 'chunk'
                                      LIMIT p_exact + 1) counted) > p_exact THEN
                v_part := near_chunks_{space}(
                    p_tenant, v_user, v_thread, v_shared, p_vector, p_categories, v_filters, p_wanted);
            END IF;
            -- not many, or the approximate search found too few
            IF v_thread IS NULL AND (v_part IS NULL OR cardinality(v_part) < p_wanted) THEN
                v_part := CASE WHEN v_filters IS NULL THEN ARRAY({nearest_in_scope}) ELSE ARRAY({nearest_matching}) END;
            END IF;
            near := near || v_part;
        END IF;
        SELECT worded || array_agg(l.memory_id), ranks || array_agg(l.rank) INTO worded, ranks
            FROM search_chunks(v_user, p_query, p_categories,
                nullif(coalesce(p_filters - 'type', '{}') || coalesce(v_removed, '{}'), '{}'), p_wanted) l;
    END LOOP;
    IF cardinality(v_users) > 1 THEN
        near := ARRAY(SELECT v.memory_id FROM vec_{space} v WHERE v.tenant_id = p_tenant AND v.memory_id = ANY (near)
                      ORDER BY v.embedding <=> p_vector, v.memory_id LIMIT p_wanted);
        SELECT array_agg(w.id), array_agg(w.rank) INTO worded, ranks
            FROM (SELECT u.id, u.rank FROM unnest(worded, ranks) AS u(id, rank) ORDER BY u.rank DESC, u.id
                LIMIT p_wanted) w;
    END IF;
    IF p_filters ?| '{before_seq,exclude_ids}' THEN  -- a chunk goes with its turn
        v_part := ARRAY(SELECT c.memory_id FROM chunks c JOIN memories t ON t.tenant_id = p_tenant AND t.id = c.turn_id
                        WHERE c.tenant_id = p_tenant AND c.memory_id = ANY (near || worded)
                            AND NOT memory_matches(t, turn_filters(p_filters)));
        near := ARRAY(SELECT i.id FROM unnest(near) WITH ORDINALITY AS i(id, at) WHERE i.id <> ALL (v_part)
            ORDER BY i.at);
        SELECT array_agg(w.id), array_agg(w.rank) INTO worded, ranks
            FROM unnest(worded, ranks) AS w(id, rank) WHERE w.id <> ALL (v_part);
    END IF;
END $fn$;
GRANT EXECUTE ON FUNCTION find_chunks_{space} TO mnema_app;
