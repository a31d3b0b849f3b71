"""Choose the cheapest item of a list: a kind of problem for the tests."""
