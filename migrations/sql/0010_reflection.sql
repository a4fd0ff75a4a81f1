-- How far reflection has read. It changes in the transaction that stores what was made of it: nothing is read twice, and no
-- cap is passed by two workers at once.
CREATE TABLE reflections (
    tenant_id  uuid NOT NULL,
    user_id    text NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('episode', 'summary', 'insight', 'day')),
    thread_id  text NOT NULL,          -- '' where a user's threads do not matter
    rev        bigint NOT NULL,        -- of the thread, up to which its turns were read; of a day: how many episodes were made
    at         timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id, kind, thread_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id) ON DELETE CASCADE
);
ALTER TABLE reflections ENABLE ROW LEVEL SECURITY;
ALTER TABLE reflections FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON reflections
    USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON reflections TO mnema_app;
