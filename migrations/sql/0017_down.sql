DROP FUNCTION paused_jobs();
