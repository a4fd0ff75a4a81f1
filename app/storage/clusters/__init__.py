"""Several databases that serve one installation: the directory, the homes of tenants, and the way to them."""
