CREATE OR REPLACE FUNCTION public.settled(OUT epoch uuid, OUT stamp bigint)
 RETURNS record
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT e.id,
     (((e.number)::bigint << 48) | ((pg_snapshot_xmin(pg_current_snapshot()))::text)::bigint)
    FROM epochs e
   ORDER BY e.number DESC
  LIMIT 1;
END;
COMMENT ON FUNCTION settled() IS 'Return the present epoch, and the stamp below which every transaction has ended, whatever epoch it is of.';
