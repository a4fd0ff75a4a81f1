CREATE OR REPLACE FUNCTION public.last_stamp(p_number smallint, OUT epoch uuid, OUT stamp bigint)
 RETURNS record
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT e.id,
     (((GREATEST(e.number, last_stamp.p_number))::bigint << 48) | ((pg_snapshot_xmax(pg_current_snapshot()))::text)::bigint)
    FROM epochs e
   ORDER BY e.number DESC
  LIMIT 1;
END;
COMMENT ON FUNCTION last_stamp(smallint) IS 'Return the present epoch, and a stamp above all that the tenant has here. It is asked when the tenant has left.';
