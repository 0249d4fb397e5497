"""The Embedding Compiler Explorer."""
