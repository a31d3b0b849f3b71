"""The check of staging certificates: independent stage times, interval bounds and path enumeration."""
