DROP FUNCTION erase_consent;
DROP TABLE context_questions, user_context, context_patches;
DROP FUNCTION refuse_silent_consent, refuse_undecided_value, decide_once;
