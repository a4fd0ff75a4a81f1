CREATE OR REPLACE FUNCTION public.past_is_filled(p_tenant uuid, p_space text, p_as_of timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    RETURN NOT EXISTS (SELECT FROM history_fills f
                       WHERE f.tenant_id = p_tenant AND f.space = p_space AND f.began > p_as_of);
END $function$;
COMMENT ON FUNCTION past_is_filled(uuid,text,timestamp with time zone) IS 'Return whether the past of a tenant is filled as far as p_as_of.';
