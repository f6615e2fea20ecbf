"""Files of a binlog sink served to replicas, as a server of their family serves its own."""
