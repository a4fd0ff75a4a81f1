DROP INDEX memories_by_thread;
CREATE INDEX memories_by_thread ON memories (tenant_id, thread_id, seq) WHERE thread_id IS NOT NULL;
