"""What every kind of instance stands on: fields, errors, faults, hardware, texts."""
