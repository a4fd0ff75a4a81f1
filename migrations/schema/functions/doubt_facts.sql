CREATE OR REPLACE FUNCTION public.doubt_facts(p_tenant uuid, p_said jsonb, p_topic text, p_operation jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_at timestamptz := p_said->>'stated_at';
    v_old facts;
    v_new facts;
BEGIN
    FOR v_old IN SELECT * FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.removed_at IS NULL AND f.created_at <= v_at AND f.doubted_at IS DISTINCT FROM v_at
          AND f.value_key IN (SELECT e->>'key' FROM jsonb_array_elements(p_operation->'entries') e)
    LOOP
        UPDATE facts f SET doubted_at = v_at WHERE f.tenant_id = p_tenant AND f.id = v_old.id RETURNING * INTO v_new;
        PERFORM record_doubt(p_said, v_old, v_new);
    END LOOP;
END $function$;
COMMENT ON FUNCTION doubt_facts(uuid,jsonb,text,jsonb) IS 'Put in doubt the values of a topic that an operation names. A value that was stated later is in no doubt.';
