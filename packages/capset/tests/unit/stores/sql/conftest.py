from tests.helpers.stores.sql.fixtures import empty_url, url

__all__ = ["empty_url", "url"]
