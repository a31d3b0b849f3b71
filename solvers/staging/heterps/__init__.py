"""The learned method of HeterPS (2023), and the baselines that it is compared with."""
