CREATE OR REPLACE FUNCTION public.keep_epoch()
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN set_config('app.epoch', public.present_epoch()::text, true) <> '';
END $function$;
