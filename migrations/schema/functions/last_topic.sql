CREATE OR REPLACE FUNCTION public.last_topic(p_tenant uuid, p_user text, p_thread text, p_categories text[])
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
SELECT f.topic_key FROM facts f
WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND f.removed_at IS NULL
  AND thread_place(f.thread_id) = thread_place(p_thread)
  AND (p_categories IS NULL OR f.category = ANY (p_categories))
ORDER BY f.created_at DESC, f.updated_at DESC LIMIT 1
$function$;
COMMENT ON FUNCTION last_topic(uuid,text,text,text[]) IS 'Return the topic that a user stated last in a thread, in categories that the caller may see (NULL: all).';
