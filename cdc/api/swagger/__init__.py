"""``/api/v2/docs``: the API's description in Swagger UI, which comes with the package."""
