CREATE OR REPLACE FUNCTION public.apply_fact_operation(p_tenant uuid, p_said jsonb, p_topic text, o jsonb)
 RETURNS SETOF jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    e jsonb;
    v_rank int;
    v_two facts[];
BEGIN
    IF o->>'op' = 'retell' THEN
        RETURN;  -- the facts stay; apply_facts writes the topic's memory anew
    ELSIF o->>'op' = 'remove' THEN
        RETURN QUERY SELECT * FROM remove_facts(p_tenant, p_said, p_topic, o, NULL);
    ELSIF o->>'op' = 'doubt' THEN
        PERFORM doubt_facts(p_tenant, p_said, p_topic, o);
    ELSIF o->>'op' = 'swap' THEN
        v_two := ARRAY (SELECT f FROM facts_of_topic(p_tenant, p_said, p_topic) f
                        WHERE f.removed_at IS NULL AND o->'ranks' @> to_jsonb(f.rank) ORDER BY f.rank);
        IF cardinality(v_two) = 2 AND greatest(v_two[1].created_at,
            v_two[2].created_at) <= (p_said->>'stated_at')::timestamptz THEN
            FOR i IN 1 .. 2 LOOP
                RETURN NEXT put_fact(p_tenant, p_said, p_topic, v_two[i].rank,
                    jsonb_build_object('value', v_two[3 - i].value, 'key', v_two[3 - i].value_key), NULL);
            END LOOP;
        END IF;
    ELSIF o->>'op' IN ('insert', 'move') THEN
        RETURN QUERY SELECT * FROM insert_fact(p_tenant, p_said, p_topic, o->'entries'->0, o->>'op' = 'move');
    ELSIF o->>'op' = 'replace' THEN
        RETURN QUERY SELECT * FROM replace_fact(p_tenant, p_said, p_topic, o->'entries'->0, o->'entries'->1);
    ELSIF o->>'op' = 'append' THEN
        IF EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f
                   WHERE f.listed_at > (p_said->>'stated_at')::timestamptz) THEN
            RETURN;  -- a newer list replaced the one that this statement adds to
        END IF;
        RETURN NEXT rank_single(p_tenant, p_said, p_topic, false);
        FOR e IN SELECT * FROM jsonb_array_elements(o->'entries') LOOP
            SELECT CASE WHEN bool_or(f.value_key = e->>'key') THEN NULL ELSE coalesce(max(f.rank), 0) + 1
                END INTO v_rank
                FROM facts_of_topic(p_tenant, p_said, p_topic) f WHERE f.kind = 'ranked' AND f.removed_at IS NULL;
            IF v_rank <= (p_said->>'max_rank')::int THEN
                RETURN NEXT put_fact(p_tenant, p_said, p_topic, v_rank, e, NULL);
            END IF;
        END LOOP;
    ELSE  -- put, list, set; a value without a rank is rank 1 of a list
        SELECT min(1) INTO v_rank FROM facts_of_topic(p_tenant, p_said, p_topic) f
            WHERE f.kind = 'ranked' AND f.removed_at IS NULL;
        IF o @? '$.entries[*].rank ? (@ != null)' THEN
            RETURN NEXT rank_single(p_tenant, p_said, p_topic, o @? '$.entries[*].rank ? (@ == 1)');
        END IF;
        FOR e IN SELECT * FROM jsonb_array_elements(o->'entries') LOOP
            RETURN NEXT put_fact(p_tenant, p_said, p_topic, coalesce((e->>'rank')::int, v_rank), e,
                                 CASE o->>'op' WHEN 'list' THEN jsonb_array_length(o->'entries') END);
        END LOOP;
        IF o->>'op' = 'list' THEN
            RETURN QUERY SELECT * FROM remove_facts(p_tenant, p_said, p_topic, '{"ranks": [], "entries": []}',
                                                    jsonb_array_length(o->'entries'));
        END IF;
    END IF;
END $function$;
COMMENT ON FUNCTION apply_fact_operation(uuid,jsonb,text,jsonb) IS 'Apply one operation (domain/facts/fact.py: FactOperation) and return what it did, one row a fact.';
