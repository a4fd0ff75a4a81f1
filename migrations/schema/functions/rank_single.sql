CREATE OR REPLACE FUNCTION public.rank_single(p_tenant uuid, p_said jsonb, p_topic text, p_replaced boolean)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_old facts;
    v_new facts;
    v_said jsonb;
BEGIN
    SELECT * INTO v_old FROM facts_of_topic(p_tenant, p_said, p_topic) f WHERE f.kind = 'single'
        AND f.removed_at IS NULL;
    IF v_old.id IS NULL THEN RETURN NULL; END IF;
    v_new := v_old;
    v_said := p_said || jsonb_build_object('stated_at', v_old.created_at, 'source_message_id', v_old.source_message_id);
    IF v_old.created_at <= (p_said->>'stated_at')::timestamptz
       AND (p_replaced OR EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f WHERE f.rank = 1)) THEN
        v_new.removed_at := clock_timestamp();
        RETURN change_fact(v_said, 'remove', v_old, v_new);  -- replaced, not taken back: it keeps its time
    END IF;
    IF EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f WHERE f.rank = 1) THEN RETURN NULL; END IF;
    v_new.kind := 'ranked';
    v_new.rank := 1;
    RETURN change_fact(v_said, NULL, v_old, v_new);
END $function$;
COMMENT ON FUNCTION rank_single(uuid,jsonb,text,boolean) IS 'Make the single value of a topic rank 1, unless the statement is about rank 1: then the value goes. A value that was
stated later than p_said keeps its time, so that the statement cannot overwrite it.';
