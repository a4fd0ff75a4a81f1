-- What a turn does in its conversation, for its ranking: whether the assistant said it, and whether it lays down how
-- the assistant shall answer from now on.

-- Return whether a text begins with a standing order: "Always use metric units.", "From now on, …". Each alternative
-- is of one language, and no other language begins so. It reads the beginning alone.
CREATE FUNCTION opens_with_order(p_text text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN left(p_text, 120) COLLATE "C" ~* (
        '^(please,? |and |also,? )?((always|never|don''t ever|make sure to always|remember to always) '
        || '(use|include|provide|give|format|confirm|show|explain|write|answer|reply|respond|call|address|list|mention'
        || '|cite|keep|maintain|avoid|ask|check|start|begin|end|add|put|remind|suggest|recommend|translate|speak|talk'
        || '|refer|assume|convert|highlight|summarize|summarise|quote|present|structure|state|specify|round|compare'
        || '|describe|limit|skip|propose|apply|follow|prioritize|focus)'
        || '|from now on|going forward|whenever i (ask|request|share|paste|mention)|when(ever)? i ask )'
        || '|^(bitte )?(ab jetzt|ab sofort|von nun an|in zukunft bitte|bitte (immer|nie|niemals) )'
        || '|^(por favor,? )?(a partir de ahora|de ahora en adelante|desde ahora)'
        || '|^(à partir de maintenant|dorénavant|désormais)|^(a partir de agora|de agora em diante|daqui em diante)'
        || '|^(今後は|これからは|今後、|これから、)');
GRANT EXECUTE ON FUNCTION opens_with_order(text) TO mnema_app, mnema_search;

-- The result has other columns, so these are made anew.
DO $do$
DECLARE
    v_space record;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I', 'recall_' || v_space.name);
    END LOOP;
END $do$;

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

SELECT create_recall(name), price_recall(name) FROM embedding_spaces;
