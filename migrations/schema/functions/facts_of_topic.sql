CREATE OR REPLACE FUNCTION public.facts_of_topic(p_tenant uuid, p_said jsonb, p_topic text)
 RETURNS SETOF facts
 LANGUAGE sql
 STABLE
AS $function$
SELECT * FROM facts f WHERE f.tenant_id = p_tenant AND f.user_id = p_said->>'user_id' AND f.topic_key = p_topic
    AND thread_place(f.thread_id) = thread_place(p_said->>'thread_id')
$function$;
COMMENT ON FUNCTION facts_of_topic(uuid,jsonb,text) IS 'Return all facts of a topic that a statement is about, removed ones too.';
