CREATE OR REPLACE FUNCTION public.memories_at(p_tenant uuid, p_user_pk bigint, p_as_of timestamp with time zone)
 RETURNS SETOF memories
 LANGUAGE sql
 STABLE
AS $function$
    SELECT w.* FROM memories m CROSS JOIN LATERAL memory_at(m, p_as_of) w
    WHERE m.tenant_id = p_tenant AND m.user_pk = p_user_pk
$function$;
COMMENT ON FUNCTION memories_at(uuid,bigint,timestamp with time zone) IS 'Return the memories of a user as they were at a time, in any state.';
