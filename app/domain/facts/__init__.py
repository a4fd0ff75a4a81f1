"""Facts: ranked lists and single values that a user states, stored and answered without a model (`docs/facts.md`)."""
