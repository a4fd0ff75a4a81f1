CREATE OR REPLACE FUNCTION public.doubt_facts(p_tenant uuid, p_said jsonb, p_topic text, p_operation jsonb)
 RETURNS void
 LANGUAGE sql
AS $function$
UPDATE facts f SET doubted_at = (p_said->>'stated_at')::timestamptz
WHERE f.tenant_id = p_tenant AND f.removed_at IS NULL AND f.created_at <= (p_said->>'stated_at')::timestamptz
  AND f.id IN (SELECT t.id FROM facts_of_topic(p_tenant, p_said, p_topic) t)
  AND f.value_key IN (SELECT e->>'key' FROM jsonb_array_elements(p_operation->'entries') e)
$function$;
COMMENT ON FUNCTION doubt_facts(uuid,jsonb,text,jsonb) IS 'Put in doubt the values of a topic that an operation names. A value that was stated later is in no doubt.';
