DROP FUNCTION due_webhooks(int);
DROP TABLE webhook_deliveries;
DROP TABLE webhooks;
