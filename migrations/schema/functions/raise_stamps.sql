CREATE OR REPLACE FUNCTION public.raise_stamps(p_number smallint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN set_config('app.epoch', greatest(p_number::bigint << 48, public.present_epoch())::text, true) <> '';
END $function$;
COMMENT ON FUNCTION raise_stamps(smallint) IS 'Let this transaction have stamps from the number of a residence on.';
