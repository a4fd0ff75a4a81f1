CREATE OR REPLACE FUNCTION public.blank_history(p_tenant uuid, p_ids text[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_count int;
BEGIN
    UPDATE history SET meta = '{}', actor = substring(actor FROM '^(?:system|key:[0-9a-f-]{36})$')
        WHERE tenant_id = p_tenant AND memory_id = ANY (p_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $function$;
COMMENT ON FUNCTION blank_history(uuid,text[]) IS 'Take from the history of memories, facts or proposals what can hold words of a person; return the number of rows. The
name of an agent is the caller''s text; a key, and the system, stay the actor.';
