CREATE OR REPLACE FUNCTION public.memory_json(r memories)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN jsonb_build_object('id', (r).id, 'user_id', (r).user_id, 'thread_id', (r).thread_id, 'seq', (r).seq, 'agent_id', (r).agent_id, 'run_id', (r).run_id, 'actor_id', (r).actor_id, 'role', (r).role, 'type', (r).type, 'category', (r).category, 'text', (r).text, 'steps_text', (r).steps_text, 'importance', (r).importance, 'pinned', (r).pinned, 'tags', (r).tags, 'state', (r).state, 'source', (r).source, 'metadata', (r).metadata, 'superseded_by', (r).superseded_by, 'purge_at', (r).purge_at, 'version', (r).version, 'created_at', (r).created_at, 'updated_at', (r).updated_at, 'expires_at', (r).expires_at, 'language', (r).language, 'valid_from', (r).valid_from, 'valid_to', (r).valid_to, 'origin', (r).origin);
COMMENT ON FUNCTION memory_json(memories) IS 'Return a memory as history keeps it and as the application reads it: without the text index and the internal user
key.';
