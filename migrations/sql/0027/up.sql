-- A list of a tenant's memories of one agent or actor, or of the pinned ones, read all memories until it had a page of
-- them. Each index has the default order of lists.

SET LOCAL statement_timeout = 0;  -- a large table takes long

CREATE INDEX memories_by_agent ON memories (tenant_id, agent_id, created_at DESC, id DESC) WHERE agent_id IS NOT NULL;
CREATE INDEX memories_by_actor ON memories (tenant_id, actor_id, created_at DESC, id DESC) WHERE actor_id IS NOT NULL;
CREATE INDEX memories_pinned ON memories (tenant_id, created_at DESC, id DESC) WHERE pinned;
