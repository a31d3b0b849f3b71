"""The check of staging certificates: its own stage times, interval bounds and path enumeration."""
