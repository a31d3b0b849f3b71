"""What certifies a placement: classes, prices and searches of the check alone; no solver imports them."""
