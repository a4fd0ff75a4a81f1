CREATE OR REPLACE FUNCTION public.remove_facts(p_tenant uuid, p_said jsonb, p_topic text, p_operation jsonb, p_above integer)
 RETURNS SETOF jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_old facts;
    v_new facts;
BEGIN
    FOR v_old IN SELECT * FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.removed_at IS NULL AND f.created_at <= (p_said->>'stated_at')::timestamptz
          AND (p_above IS NULL OR f.rank > p_above)
          AND (p_operation->'ranks' = '[]' OR p_operation->'ranks' @> to_jsonb(f.rank))
          AND (p_operation->'entries' = '[]'
               OR f.value_key IN (SELECT e->>'key' FROM jsonb_array_elements(p_operation->'entries') e))
        ORDER BY f.rank
    LOOP
        v_new := v_old;
        v_new.removed_at := clock_timestamp();
        RETURN NEXT change_fact(p_said, 'remove', v_old, v_new);
    END LOOP;
END $function$;
COMMENT ON FUNCTION remove_facts(uuid,jsonb,text,jsonb,integer) IS 'Remove the facts of a topic that an operation names by rank or value, all of them if it names none. p_above: only
ranks above it. A fact that was stated later stays.';
