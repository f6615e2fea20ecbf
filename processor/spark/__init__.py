"""The only place that imports pyspark: session, jobs, and what runs in their tasks."""
