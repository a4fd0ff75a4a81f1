CREATE OR REPLACE FUNCTION public.record_doubt(p_said jsonb, p_old facts, p_new facts)
 RETURNS void
 LANGUAGE sql
AS $function$
INSERT INTO history (tenant_id, id, memory_id, event, actor, meta, ts)
    VALUES (p_new.tenant_id, gen_random_uuid(), p_new.id::text, 'UPDATE', p_said->>'actor',
            jsonb_strip_nulls(jsonb_build_object('before', fact_json(p_old), 'after', fact_json(p_new))),
            clock_timestamp())
$function$;
COMMENT ON FUNCTION record_doubt(jsonb,facts,facts) IS 'Record in history that a statement puts a value in doubt, or takes its doubt away. No delta and no event tells of it.';
