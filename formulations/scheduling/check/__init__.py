"""The check of scheduling bounds and certificates, which no solver imports."""
