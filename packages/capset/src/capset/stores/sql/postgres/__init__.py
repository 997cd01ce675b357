"""PostgreSQL's part of the SQL store. Its driver, psycopg, is imported when such a store is opened."""
