"""What the certifying checks of several kinds share: enumeration."""
