-- Turns without a seq follow each other by time: the index has their order too, so the next ones are found at once in a
-- long conversation.

SET LOCAL statement_timeout = 0;  -- a large table takes long

DROP INDEX memories_by_thread;
CREATE INDEX memories_by_thread ON memories (tenant_id, thread_id, seq, created_at, id) WHERE thread_id IS NOT NULL;
