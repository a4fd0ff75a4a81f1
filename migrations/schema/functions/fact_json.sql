CREATE OR REPLACE FUNCTION public.fact_json(r facts)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN jsonb_build_object('id', (r).id, 'user_id', (r).user_id, 'thread_id', (r).thread_id, 'topic_key', (r).topic_key, 'kind', (r).kind, 'rank', (r).rank, 'value', (r).value, 'category', (r).category, 'source_message_id', (r).source_message_id, 'created_at', (r).created_at, 'updated_at', (r).updated_at, 'doubted_at', (r).doubted_at, 'removed_at', (r).removed_at);
COMMENT ON FUNCTION fact_json(facts) IS 'Return a fact as history keeps it and as the application reads it.';
