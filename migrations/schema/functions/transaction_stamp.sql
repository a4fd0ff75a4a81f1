CREATE OR REPLACE FUNCTION public.transaction_stamp()
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
    SELECT coalesce(nullif(current_setting('app.epoch', true), '')::bigint, public.present_epoch())
           | pg_current_xact_id()::text::bigint;
$function$;
