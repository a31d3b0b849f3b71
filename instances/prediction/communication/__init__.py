"""Communication: seconds of collective operations and transfers from latency and bandwidth of links."""
