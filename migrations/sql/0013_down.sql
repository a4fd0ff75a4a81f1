-- The functions of before are there again.
DROP FUNCTION expire_records(uuid, bigint, timestamptz, timestamptz, int, boolean);
GRANT EXECUTE ON FUNCTION expire_records(uuid, bigint, timestamptz, timestamptz, boolean) TO mnema_app;
DROP INDEX idempotency_keys_of_user, idempotency_keys_by_age, jobs_ended;
ALTER TABLE idempotency_keys DROP COLUMN user_id;
