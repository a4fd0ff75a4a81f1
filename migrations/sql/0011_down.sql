-- Back to the journal of 0003, which makes its functions only where there are none.
DO $$
DECLARE
    v_space text;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I, %I', 'apply_changes_' || v_space, 'record_changes_' || v_space);
        PERFORM create_journal(v_space);
    END LOOP;
END $$;
