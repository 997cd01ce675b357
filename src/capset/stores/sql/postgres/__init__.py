"""What of a SQL store is PostgreSQL's own. Its driver, psycopg, is imported when such a store is opened."""
