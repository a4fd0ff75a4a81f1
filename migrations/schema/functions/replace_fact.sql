CREATE OR REPLACE FUNCTION public.replace_fact(p_tenant uuid, p_said jsonb, p_topic text, p_old jsonb, p_new jsonb)
 RETURNS SETOF jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_old facts;
    v_rank int;
BEGIN
    SELECT * INTO v_old FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.removed_at IS NULL AND f.value_key = p_old->>'key' ORDER BY f.rank LIMIT 1;
    IF v_old.id IS NULL THEN
        SELECT min(1) INTO v_rank FROM facts_of_topic(p_tenant, p_said, p_topic) f
            WHERE f.kind = 'ranked' AND f.removed_at IS NULL;
        IF (p_new->>'rank')::int = 1 THEN
            RETURN NEXT put_fact(p_tenant, p_said, p_topic, v_rank, p_new, NULL);
        END IF;
    ELSIF p_new->>'key' <> p_old->>'key' AND EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f
              WHERE f.removed_at IS NULL AND f.kind = v_old.kind AND f.value_key = p_new->>'key') THEN
        RETURN QUERY SELECT * FROM remove_facts(p_tenant, p_said, p_topic,
                                                jsonb_build_object('ranks', '[]'::jsonb, 'entries',
                                                    jsonb_build_array(p_old)), NULL);
    ELSE
        RETURN NEXT put_fact(p_tenant, p_said, p_topic, v_old.rank, p_new, NULL);
    END IF;
END $function$;
COMMENT ON FUNCTION replace_fact(uuid,jsonb,text,jsonb,jsonb) IS 'Give the place of the first of two entries to the second. A value that is in the list already has no second place.
Without a place to give, the second is stored as by `set` if its rank is 1.';
