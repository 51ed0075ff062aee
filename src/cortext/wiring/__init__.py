"""The only place that names concrete classes: stores, tools and models are put together here."""
