CREATE OR REPLACE FUNCTION public.transaction_stamp()
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
    SELECT coalesce(nullif(current_setting('app.epoch', true), '')::bigint, public.present_epoch())
           | pg_current_xact_id()::text::bigint;
$function$;
COMMENT ON FUNCTION transaction_stamp() IS 'Return the stamp of this transaction. Each row that is written asks for it, so a transaction of many rows calls
keep_epoch first. One expression, so that PostgreSQL calls no function.';
