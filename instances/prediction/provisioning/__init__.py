"""Forecasts of training on rented hardware, offers for a deadline, and instances from them."""
