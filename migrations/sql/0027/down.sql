DROP INDEX memories_pinned;
DROP INDEX memories_by_actor;
DROP INDEX memories_by_agent;
