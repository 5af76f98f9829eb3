"""Real Iceberg tables: by Spark, by Java writers, and of metadata alone."""
