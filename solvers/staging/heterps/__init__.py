"""The methods that HeterPS (2023) is compared with, and its own."""
