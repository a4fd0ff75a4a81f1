CREATE OR REPLACE FUNCTION public.insert_fact(p_tenant uuid, p_said jsonb, p_topic text, p_entry jsonb, p_known boolean)
 RETURNS SETOF jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_at timestamptz := p_said->>'stated_at';
    v_from int;
    v_to int := (p_entry->>'rank')::int;
    v_free int;
    v_places jsonb;
    p jsonb;
BEGIN
    IF EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f WHERE greatest(f.created_at, f.listed_at) > v_at)
       OR p_known AND NOT EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f
                                  WHERE f.removed_at IS NULL AND f.value_key = p_entry->>'key') THEN
        RETURN;
    END IF;
    RETURN NEXT rank_single(p_tenant, p_said, p_topic, false);
    SELECT min(f.rank) INTO v_from FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.kind = 'ranked' AND f.removed_at IS NULL AND f.value_key = p_entry->>'key';
    -- the other values after the old place has closed: [{rank, value, key, id}]
    SELECT coalesce(jsonb_agg(jsonb_build_object('rank', f.rank - CASE WHEN f.rank > v_from THEN 1 ELSE 0 END,
        'was', f.rank,
                                                 'value', f.value, 'key', f.value_key, 'id', new_id())), '[]')
        INTO v_places FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.kind = 'ranked' AND f.removed_at IS NULL AND f.rank IS DISTINCT FROM v_from;
    v_to := coalesce(v_to, (SELECT coalesce(max((x->>'rank')::int), 0) + 1 FROM jsonb_array_elements(v_places) x));
    v_free := v_to;
    WHILE v_places @> jsonb_build_array(jsonb_build_object('rank', v_free)) LOOP
        v_free := v_free + 1;
    END LOOP;
    SELECT jsonb_agg(x ORDER BY (x->>'rank')::int) INTO v_places FROM (
        SELECT p_entry || jsonb_build_object('rank', v_to, 'was', v_from) AS x
        UNION ALL
        SELECT y || CASE WHEN (y->>'rank')::int >= v_to AND (y->>'rank')::int < v_free
                         THEN jsonb_build_object('rank', (y->>'rank')::int + 1) ELSE '{}' END
        FROM jsonb_array_elements(v_places) y) placed;
    FOR p IN SELECT x FROM jsonb_array_elements(v_places) x
             WHERE (x->>'rank')::int <= (p_said->>'max_rank')::int AND x->'rank' IS DISTINCT FROM x->'was' LOOP
        RETURN NEXT put_fact(p_tenant, p_said, p_topic, (p->>'rank')::int, p, NULL);
    END LOOP;
    RETURN QUERY SELECT * FROM remove_facts(p_tenant, p_said, p_topic,
        jsonb_build_object('entries', '[]'::jsonb, 'ranks', (
        SELECT coalesce(jsonb_agg(f.rank), '[0]') FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.kind = 'ranked' AND f.removed_at IS NULL
          AND NOT v_places @> jsonb_build_array(jsonb_build_object('rank', f.rank)))), NULL);
END $function$;
COMMENT ON FUNCTION insert_fact(uuid,jsonb,text,jsonb,boolean) IS 'Put a value at a rank (NULL: after the last one) of the topic''s list. Its old place closes first; the values from the
rank on, up to a gap, move down by one, and a value above max_rank goes. p_known: only if the list has the value. A
list of which a newer statement decided anything stays as it is.';
