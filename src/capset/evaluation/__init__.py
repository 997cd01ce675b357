"""From a composition to what one principal may use here and now (spec 2, F15–F22)."""
