"""openpi's websocket protocol: the policy that asks a server, and the server that any policy can stand behind."""
