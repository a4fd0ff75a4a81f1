CREATE OR REPLACE FUNCTION public.present_epoch()
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
BEGIN
    RETURN (SELECT e.number::bigint << 48 FROM public.epochs e ORDER BY e.number DESC LIMIT 1);
END $function$;
COMMENT ON FUNCTION present_epoch() IS 'Return the part of a stamp that the present epoch gives.';
