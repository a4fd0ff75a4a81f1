CREATE OR REPLACE FUNCTION public.settled(OUT epoch uuid, OUT stamp bigint)
 RETURNS record
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT e.id,
     (((GREATEST(e.number, ( SELECT r.number
            FROM residences r
           WHERE (r.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))::bigint << 48) | ((pg_snapshot_xmin(pg_current_snapshot()))::text)::bigint)
    FROM epochs e
   ORDER BY e.number DESC
  LIMIT 1;
END;
COMMENT ON FUNCTION settled() IS 'Return the present epoch, and the stamp below which every transaction of this tenant has ended, whatever epoch it is
of.';
