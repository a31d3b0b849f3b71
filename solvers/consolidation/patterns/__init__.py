"""Column generation over patterns of servers and jobs: master problem, pricing, bounds, plans."""
