"""Turn memory: write and read artifacts, build views, extract with a chat model, reconcile buckets."""
