CREATE OR REPLACE FUNCTION public.thread_changes_since(p_tenant uuid, p_thread text, p_rev bigint, p_limit integer)
 RETURNS TABLE(rev bigint, memory_id uuid, is_turn boolean, user_id text, actor_id text, role text, said text, version integer, active boolean, key_id uuid)
 LANGUAGE sql
 STABLE
AS $function$
SELECT c.rev, c.memory_id::uuid, c.event = 'created'
    AND (m.id IS NULL OR m.type = 'turn'), m.user_id, m.actor_id, m.role,
       left(m.text, 1000), m.version,
       coalesce(m.state = 'active' AND m.created_at >= asked.at, false),  -- said before the question: no answer
       k.key_id
FROM change_log c
CROSS JOIN (
    SELECT coalesce(max(a.created_at), '-infinity') AS at FROM change_log q
    JOIN memories a ON a.tenant_id = p_tenant AND a.id = q.memory_id::uuid
    WHERE q.tenant_id = p_tenant AND q.thread_id = p_thread AND q.rev = p_rev) asked
LEFT JOIN memories m ON m.tenant_id = p_tenant AND m.id = c.memory_id::uuid
LEFT JOIN LATERAL (
    SELECT CASE WHEN pg_input_is_valid(h.meta->>'key', 'uuid') THEN (h.meta->>'key')::uuid END AS key_id FROM history h
    WHERE h.tenant_id = p_tenant AND h.memory_id = c.memory_id AND h.event = 'ADD' AND m.type = 'turn'
        LIMIT 1) k ON true
WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.rev > p_rev ORDER BY c.rev LIMIT p_limit
$function$;
COMMENT ON FUNCTION thread_changes_since(uuid,text,bigint,integer) IS 'Return what happened in a thread after a revision, oldest first. A memory that no longer exists counts as a turn.
`key_id` is the API key that stored the turn.';
