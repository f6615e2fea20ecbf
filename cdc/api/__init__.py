"""The HTTP OpenAPI, version 2."""
