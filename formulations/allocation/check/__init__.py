"""The check of allocation certificates, which no solver imports: configurations, dual bounds, verdict."""
