"""How it is solved: methods, backends, and the registry that knows them."""
