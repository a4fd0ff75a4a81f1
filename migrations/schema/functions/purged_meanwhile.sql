CREATE OR REPLACE FUNCTION public.purged_meanwhile()
 RETURNS text
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'a related memory was purged' USING ERRCODE = 'serialization_failure';
END $function$;
