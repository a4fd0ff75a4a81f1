CREATE OR REPLACE FUNCTION public.opens_with_order(p_text text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (("left"(p_text, 120) COLLATE "C") ~* ((((((((('^(please,? |and |also,? )?((always|never|don''t ever|make sure to always|remember to always) '::text || '(use|include|provide|give|format|confirm|show|explain|write|answer|reply|respond|call|address|list|mention'::text) || '|cite|keep|maintain|avoid|ask|check|start|begin|end|add|put|remind|suggest|recommend|translate|speak|talk'::text) || '|refer|assume|convert|highlight|summarize|summarise|quote|present|structure|state|specify|round|compare'::text) || '|describe|limit|skip|propose|apply|follow|prioritize|focus)'::text) || '|from now on|going forward|whenever i (ask|request|share|paste|mention)|when(ever)? i ask )'::text) || '|^(bitte )?(ab jetzt|ab sofort|von nun an|in zukunft bitte|bitte (immer|nie|niemals) )'::text) || '|^(por favor,? )?(a partir de ahora|de ahora en adelante|desde ahora)'::text) || '|^(à partir de maintenant|dorénavant|désormais)|^(a partir de agora|de agora em diante|daqui em diante)'::text) || '|^(今後は|これからは|今後、|これから、)'::text));
COMMENT ON FUNCTION opens_with_order(text) IS 'Return whether a text begins with a standing order: "Always use metric units.", "From now on, …". Each alternative
is of one language, and no other language begins so. It reads the beginning alone.';
