CREATE OR REPLACE FUNCTION public.keep_epoch()
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN set_config('app.epoch', greatest(nullif(current_setting('app.epoch', true), '')::bigint,
                                            public.present_epoch())::text, true) <> '';
END $function$;
COMMENT ON FUNCTION keep_epoch() IS 'Keep the present epoch in a setting until the transaction ends. A residence may have set a higher one.';
