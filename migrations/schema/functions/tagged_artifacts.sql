CREATE OR REPLACE FUNCTION public.tagged_artifacts(p_user text, p_tag text, p_since timestamp with time zone, p_limit integer)
 RETURNS TABLE(id uuid, made_at timestamp with time zone)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT c.id, c.made_at FROM conv_messages c
    WHERE (c.tags || ARRAY['_t' || c.tenant_id::text, '_u' || c.user_id])
            @> ARRAY[p_tag, '_t' || nullif(current_setting('app.tenant_id', true), ''), '_u' || p_user]
      AND c.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid AND c.user_id = p_user
      AND c.made_at >= p_since
    ORDER BY c.made_at DESC, c.id DESC LIMIT p_limit
$function$;
COMMENT ON FUNCTION tagged_artifacts(text,text,timestamp with time zone,integer) IS 'Return the newest artifacts of a user with a tag, made since p_since, in all conversations. A definer: see the index.';
