-- Row-level security of each table.

ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY auth ON api_keys AS PERMISSIVE FOR SELECT TO mnema_auth
    USING (true);
CREATE POLICY tenant ON api_keys AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE blob_contents ENABLE ROW LEVEL SECURITY;
ALTER TABLE blob_contents FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON blob_contents AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE blobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE blobs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON blobs AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE change_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE change_log FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON change_log AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE chat_upstreams ENABLE ROW LEVEL SECURITY;
ALTER TABLE chat_upstreams FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON chat_upstreams AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE checkpoint_lineage ENABLE ROW LEVEL SECURITY;
ALTER TABLE checkpoint_lineage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON checkpoint_lineage AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE checkpoint_values ENABLE ROW LEVEL SECURITY;
ALTER TABLE checkpoint_values FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON checkpoint_values AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE checkpoint_writes ENABLE ROW LEVEL SECURITY;
ALTER TABLE checkpoint_writes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON checkpoint_writes AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE chunks ENABLE ROW LEVEL SECURITY;
ALTER TABLE chunks FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON chunks AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE consolidation_pairs ENABLE ROW LEVEL SECURITY;
ALTER TABLE consolidation_pairs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON consolidation_pairs AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE context_patches ENABLE ROW LEVEL SECURITY;
ALTER TABLE context_patches FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON context_patches AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE context_questions ENABLE ROW LEVEL SECURITY;
ALTER TABLE context_questions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON context_questions AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE conv_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE conv_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY search ON conv_messages AS PERMISSIVE FOR SELECT TO mnema_search
    USING (true);
CREATE POLICY tenant ON conv_messages AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE delta_cursors ENABLE ROW LEVEL SECURITY;
ALTER TABLE delta_cursors FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON delta_cursors AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE events ENABLE ROW LEVEL SECURITY;
ALTER TABLE events FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON events AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE facts ENABLE ROW LEVEL SECURITY;
ALTER TABLE facts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON facts AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE files ENABLE ROW LEVEL SECURITY;
ALTER TABLE files FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON files AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE history ENABLE ROW LEVEL SECURITY;
ALTER TABLE history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON history AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE history_fills ENABLE ROW LEVEL SECURITY;
ALTER TABLE history_fills FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON history_fills AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON idempotency_keys AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE index_jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE index_jobs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON index_jobs AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE job_pauses ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_pauses FORCE ROW LEVEL SECURITY;
CREATE POLICY claim ON job_pauses AS PERMISSIVE FOR SELECT TO mnema_jobs
    USING (true);
CREATE POLICY tenant ON job_pauses AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE jobs FORCE ROW LEVEL SECURITY;
CREATE POLICY claim ON jobs AS PERMISSIVE FOR SELECT TO mnema_jobs
    USING (true);
CREATE POLICY tenant ON jobs AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE llm_budget ENABLE ROW LEVEL SECURITY;
ALTER TABLE llm_budget FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON llm_budget AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE llm_calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE llm_calls FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON llm_calls AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memories FORCE ROW LEVEL SECURITY;
CREATE POLICY search ON memories AS PERMISSIVE FOR SELECT TO mnema_search
    USING (true);
CREATE POLICY tenant ON memories AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE memory_access ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_access FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory_access AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE memory_batches ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_batches FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory_batches AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE memory_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory_counts AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE moves ENABLE ROW LEVEL SECURITY;
ALTER TABLE moves FORCE ROW LEVEL SECURITY;
CREATE POLICY aborted ON moves AS RESTRICTIVE FOR UPDATE TO mnema_app
    USING ((step = ANY (ARRAY['flip'::text, 'clean'::text, 'done'::text])) OR details ? 'requested'::text AND ended_at IS NULL);
CREATE POLICY auth ON moves AS PERMISSIVE FOR SELECT TO mnema_auth
    USING (true);
CREATE POLICY requested ON moves AS RESTRICTIVE FOR INSERT TO mnema_app
    WITH CHECK (step = 'requested'::text AND details = '{"requested": true, "leave_region": false}'::jsonb AND source <> target AND has_mover() AND source = (( SELECT p.cluster
   FROM placements p
  WHERE p.tenant_id = moves.tenant_id)));
CREATE POLICY tenant ON moves AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);
CREATE POLICY withdrawn ON moves AS RESTRICTIVE FOR DELETE TO mnema_app
    USING (step = 'requested'::text AND details ? 'requested'::text);

ALTER TABLE past_minilm_l6_v2 ENABLE ROW LEVEL SECURITY;
ALTER TABLE past_minilm_l6_v2 FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON past_minilm_l6_v2 AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE placements ENABLE ROW LEVEL SECURITY;
ALTER TABLE placements FORCE ROW LEVEL SECURITY;
CREATE POLICY auth ON placements AS PERMISSIVE FOR SELECT TO mnema_auth
    USING (true);
CREATE POLICY first_home ON placements AS RESTRICTIVE FOR INSERT TO mnema_app
    WITH CHECK (epoch = 1);
CREATE POLICY tenant ON placements AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE receipt_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE receipt_items FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON receipt_items AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE receipts ENABLE ROW LEVEL SECURITY;
ALTER TABLE receipts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON receipts AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE reflections ENABLE ROW LEVEL SECURITY;
ALTER TABLE reflections FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON reflections AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE relations ENABLE ROW LEVEL SECURITY;
ALTER TABLE relations FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON relations AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE residences ENABLE ROW LEVEL SECURITY;
ALTER TABLE residences FORCE ROW LEVEL SECURITY;
CREATE POLICY auth ON residences AS PERMISSIVE FOR SELECT TO mnema_auth
    USING (true);
CREATE POLICY first_home ON residences AS RESTRICTIVE FOR INSERT TO mnema_app
    WITH CHECK (state = 'home'::text AND epoch = 1 AND number = 0 AND (EXISTS ( SELECT
   FROM placements p
     JOIN cluster c ON c.name = p.cluster
  WHERE p.tenant_id = residences.tenant_id AND p.epoch = 1)));
CREATE POLICY tenant ON residences AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE revocations ENABLE ROW LEVEL SECURITY;
ALTER TABLE revocations FORCE ROW LEVEL SECURITY;
CREATE POLICY auth ON revocations AS PERMISSIVE FOR SELECT TO mnema_auth
    USING (true);
CREATE POLICY tenant ON revocations AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE sources FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON sources AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE store_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE store_items FORCE ROW LEVEL SECURITY;
CREATE POLICY search ON store_items AS PERMISSIVE FOR SELECT TO mnema_search
    USING (true);
CREATE POLICY tenant ON store_items AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE store_vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE store_vectors FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON store_vectors AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE supervisor_checkpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE supervisor_checkpoints FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON supervisor_checkpoints AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE swept_blobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE swept_blobs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON swept_blobs AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE tenant_configs ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_configs FORCE ROW LEVEL SECURITY;
CREATE POLICY auth ON tenant_configs AS PERMISSIVE FOR SELECT TO mnema_auth
    USING (true);
CREATE POLICY partitions ON tenant_configs AS PERMISSIVE FOR SELECT TO mnema_partitions
    USING (true);
CREATE POLICY tenant ON tenant_configs AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE tenant_epochs ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_epochs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenant_epochs AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY auth ON tenants AS PERMISSIVE FOR SELECT TO mnema_auth
    USING (true);
CREATE POLICY tenant ON tenants AS PERMISSIVE FOR ALL TO PUBLIC
    USING (id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE thread_revision ENABLE ROW LEVEL SECURITY;
ALTER TABLE thread_revision FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON thread_revision AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE tombstones ENABLE ROW LEVEL SECURITY;
ALTER TABLE tombstones FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tombstones AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE usage_days ENABLE ROW LEVEL SECURITY;
ALTER TABLE usage_days FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON usage_days AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE user_context ENABLE ROW LEVEL SECURITY;
ALTER TABLE user_context FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON user_context AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE users ENABLE ROW LEVEL SECURITY;
ALTER TABLE users FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON users AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE vec_minilm_l6_v2 ENABLE ROW LEVEL SECURITY;
ALTER TABLE vec_minilm_l6_v2 FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON vec_minilm_l6_v2 AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE webhook_deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_deliveries FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON webhook_deliveries AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);

ALTER TABLE webhooks ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhooks FORCE ROW LEVEL SECURITY;
CREATE POLICY claim ON webhooks AS PERMISSIVE FOR SELECT TO mnema_jobs
    USING (true);
CREATE POLICY tenant ON webhooks AS PERMISSIVE FOR ALL TO PUBLIC
    USING (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id'::text, true), ''::text)::uuid);
