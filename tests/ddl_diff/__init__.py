"""Any SQL file on a real server, and our schema of it held against ``information_schema``."""
