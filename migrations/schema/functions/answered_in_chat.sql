CREATE OR REPLACE FUNCTION public.answered_in_chat(p context_patches)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
SELECT EXISTS (
    SELECT FROM context_questions q
    JOIN memories a ON a.tenant_id = p.tenant_id AND a.id = q.turn_id AND a.user_id = p.user_id
        AND a.thread_id = q.thread_id
        AND a.type = 'turn' AND a.role = 'assistant' AND a.state = 'active' AND a.version = 1
        AND has_words(a.text, q.question)
    JOIN change_log c ON c.tenant_id = p.tenant_id AND c.memory_id = q.turn_id::text AND c.thread_id = q.thread_id
        AND c.event = 'created' AND c.rev = q.rev
    CROSS JOIN LATERAL (
        SELECT * FROM thread_changes_since(p.tenant_id, q.thread_id, q.rev, 1000) t WHERE t.is_turn
            ORDER BY t.rev LIMIT 1) t
    WHERE q.tenant_id = p.tenant_id AND q.patch_id = p.id AND q.user_id = p.user_id AND has_words(q.question, p.value)
      AND t.memory_id = p.answer_id AND t.role = 'user' AND t.user_id = p.user_id
      AND coalesce(t.actor_id, t.user_id) = p.user_id AND t.version = 1 AND t.active
      AND t.key_id IS NOT NULL AND t.key_id <> ALL (p.keys) AND t.key_id IS DISTINCT FROM q.key_id
      AND t.rev - q.rev = (SELECT count(*) FROM change_log l  -- no revision was deleted from the log
                           WHERE l.tenant_id = p.tenant_id AND l.thread_id = q.thread_id AND l.rev > q.rev
                           AND l.rev <= t.rev))
$function$;
COMMENT ON FUNCTION answered_in_chat(context_patches) IS 'Return whether the turn `answer_id` is the user''s next turn after an assistant''s turn that asks about the value. The
API key that stored the answer must be another than those that proposed the value or bound the question.';
