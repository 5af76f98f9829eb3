"""How much a JVM has read from files through Hadoop, as Iceberg does for local tables."""

from pyspark.sql import SparkSession

from icdc_spark.iceberg.jvm.bridge import Bridge


def count_bytes_read(session: SparkSession) -> int:
    """Return the bytes read from local files since the JVM began; asking whether a file is there is
    no reading."""
    files = Bridge(session).get_statics("org.apache.hadoop.fs.FileSystem")
    of_local = files.getGlobalStorageStatistics().get("file")
    return int(of_local.getLong("bytesRead"))
