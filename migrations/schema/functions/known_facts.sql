CREATE OR REPLACE FUNCTION public.known_facts(p_tenant uuid, p_user text, p_thread text, p_topic text, p_categories text[])
 RETURNS SETOF facts
 LANGUAGE sql
 STABLE
AS $function$
SELECT * FROM facts f WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND f.topic_key = p_topic
    AND thread_place(f.thread_id) = thread_place(p_thread) AND f.removed_at IS NULL
    AND (p_categories IS NULL OR f.category = ANY (p_categories))
ORDER BY f.rank NULLS FIRST
$function$;
COMMENT ON FUNCTION known_facts(uuid,text,text,text,text[]) IS 'Return the facts of a topic in a thread by rank, in categories that the caller may see (NULL: all).';
