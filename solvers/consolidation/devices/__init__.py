"""Methods for single devices: prices by shape of server, placing on devices, and improving."""
