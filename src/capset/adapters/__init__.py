"""Other people's shapes and frameworks, and the way between them and capset's."""
