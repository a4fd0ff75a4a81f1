-- Back to the journal of 0014, which makes its functions anew in every space.
SELECT create_journal(name) FROM embedding_spaces;
DROP FUNCTION purged_meanwhile();
DROP INDEX jobs_dead;
ALTER TABLE reflections DROP COLUMN tries;
