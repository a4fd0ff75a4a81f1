"""CPU budgets of one request: what each part of it costs, beside the least that the part can cost."""
