CREATE OR REPLACE FUNCTION public.passes_filters(m memories, f jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
AS $function$
BEGIN
    RETURN memory_matches(m, f);
END $function$;
COMMENT ON FUNCTION passes_filters(memories,jsonb) IS 'Return what memory_matches returns. It is for statements that read few memories: the planner does not inline it, and
to prepare the long expression takes longer than to run such a statement.';
