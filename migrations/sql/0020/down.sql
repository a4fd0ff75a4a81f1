DROP FUNCTION page_placements(timestamptz, uuid, int), newest_placement();
DROP INDEX placements_changed;
CREATE INDEX placements_changed ON placements (changed_at);
