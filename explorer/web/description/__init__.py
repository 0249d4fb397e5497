"""What the JSON API and the WebSocket take and answer, for whoever writes a client: as OpenAPI and as JSON Schema."""
