CREATE OR REPLACE FUNCTION public.partition_families()
 RETURNS TABLE(tables text[], keys text[])
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
    VALUES ('{events}'::text[], '{id}'::text[]), ('{receipts,receipt_items}', '{id,receipt_id}');
$function$;
COMMENT ON FUNCTION partition_families() IS 'Return the partitioned tables and the columns of their keys. Tables of one family get and lose each week together.';
