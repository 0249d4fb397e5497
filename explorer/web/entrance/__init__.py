"""What stands between the network and the application: connections, addresses, who asks, and what is refused."""
