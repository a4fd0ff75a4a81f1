CREATE OR REPLACE FUNCTION public.price_recall(p_name text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE (SELECT format('ALTER FUNCTION %s SET random_page_cost = 1.1', oid::regprocedure)
             FROM pg_proc WHERE proname = 'recall_' || p_name);
END $function$;
COMMENT ON FUNCTION price_recall(text) IS 'Make a search read memories by an index that covers what it needs. A user may have most rows of a tenant, and at the
default price of a page at random the planner then reads a bitmap of the primary key and each row besides. For the
whole role, this price would make lookups of few rows scan tables.';
