CREATE OR REPLACE FUNCTION public.evidence_of(p_tenant uuid, p_user text, p_ids uuid[])
 RETURNS TABLE(id uuid, kind text, root text, confidence double precision, category text, said text)
 LANGUAGE sql
 STABLE
AS $function$
SELECT m.id, m.type, CASE WHEN pg_input_is_valid(r.root, 'uuid') THEN r.root::uuid::text ELSE r.root END,
       CASE WHEN m.type = 'insight' AND m.version = 1 AND pg_input_is_valid(m.metadata->>'confidence', 'float8')
                 AND jsonb_typeof(m.metadata->'confidence') = 'number'
                 AND EXISTS (SELECT FROM history h WHERE h.tenant_id = p_tenant AND h.memory_id = m.id::text
                                                     AND h.event = 'ADD' AND h.meta->>'job' = 'insight')
            THEN (m.metadata->>'confidence')::float8 END,
       m.category, left(m.text, 4000)
FROM memories m
LEFT JOIN memories t ON t.tenant_id = p_tenant AND t.user_id = p_user
    AND t.id = CASE WHEN pg_input_is_valid(m.source->>'turn_id', 'uuid') THEN (m.source->>'turn_id')::uuid END
CROSS JOIN LATERAL (SELECT CASE WHEN m.type IN ('turn', 'semantic')
    THEN coalesce(t.source->>'turn_id', m.source->>'turn_id', m.id::text) ELSE m.id::text END AS root) r
WHERE m.tenant_id = p_tenant AND m.user_id = p_user AND m.id = ANY (p_ids) AND m.state = 'active'
  AND CASE m.type WHEN 'turn' THEN m.role = 'user' AND coalesce(m.actor_id, m.user_id) = m.user_id
                  ELSE m.type IN ('semantic', 'episodic', 'insight') END
$function$;
COMMENT ON FUNCTION evidence_of(uuid,text,uuid[]) IS 'Return what memories of a user say about that user. A turn must be the user''s own. `root` is the origin: of a turn or
a fact the turn that it names, by that turn''s external id if it has one; of other memories their own id. `confidence`
is set only for an insight that Mnema''s own job stored and that was not changed since. Stored text never makes a cast
fail.';
