CREATE OR REPLACE FUNCTION public.thread_place(p_thread text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (p_thread IS NULL) THEN ''::text ELSE p_thread END;
