# Two images of one source: `operator` watches pipelines, `spark` is what drivers and executors run.
# Layers go from what changes seldom to what changes often: Debian, Java, Python packages, jars, ours.
# Every package and jar is fixed by a lock with checksums; every layer repeats when its files carry
# one date (tools/images/images.py sees to that). Compiled Python must then not go by dates: unchecked-hash.
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS python
# What the package manager leaves behind is of no use later, and has the time of the build in it.
RUN apt-get update --quiet \
 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends \
      ca-certificates python3 tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/lib/dpkg/*-old \
      /var/cache/ldconfig/aux-cache /var/log/* /usr/share/doc/*/changelog* \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3* /usr/share/python3 \
 && echo 'icdc:x:185:' >> /etc/group \
 && echo 'icdc:x:185:185::/tmp:/usr/sbin/nologin' >> /etc/passwd
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# --- Builders: nothing of them is in an image but what is copied by name.

FROM python AS builder
# Settings of a user's mirror, where there is one; they stay in no layer.
RUN apt-get update --quiet \
 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends \
      binutils python3-pip \
 && rm -rf /var/lib/apt/lists/*
# Native libraries of wheels keep what a debugger reads: half of what they take. patchelf has changed
# some that have nothing of it, which `strip` may break, so those stay as they are.
RUN printf '%s\n' '#!/bin/sh -e' 'find "$@" -name "*.so*" -type f | while read -r library; do' \
      '  if readelf --sections "$library" | grep -q "\.debug_info"; then strip --strip-debug "$library"; fi' \
      'done' > /usr/local/bin/strip-debugging \
 && chmod 755 /usr/local/bin/strip-debugging
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_DEPS=1 \
    PIP_NO_WARN_SCRIPT_LOCATION=1 \
    PIP_ROOT_USER_ACTION=ignore
COPY tools/locks/build.lock /build/
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    python3 -m venv --without-pip /build/venv \
 && python3 -m venv --without-pip /opt/venv \
 && pip --python /build/venv/bin/python install --require-hashes -r /build/build.lock

FROM builder AS operator-packages
COPY tools/locks/operator.lock /build/
# Of AWS's services the catalogs are Glue and DynamoDB; STS and SSO give roles, S3 has metadata files.
# Of the client of Kubernetes only what sends requests is used: the classes for each kind of object and
# each group of the API, twice (118 MB), are loaded by name when somebody asks for them.
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    pip --python /opt/venv/bin/python install --no-compile --only-binary :all: --require-hashes \
      --report /build/report.json -r /build/operator.lock \
 && cd /opt/venv/lib/python3.*/site-packages \
 && find . -name "*.opt-*.pyc" -delete \
 && find botocore/data -mindepth 1 -maxdepth 1 -type d ! -name dynamodb ! -name glue ! -name s3 \
      ! -name signin ! -name "sso*" ! -name sts -exec rm -rf {} + \
 && find kubernetes -name "*.py" \( -path "*/client/api/*" -o -path "*/client/models/*" \) \
      ! -name "__init__*" -delete \
 && strip-debugging . \
 && python3 -m compileall -q -f --invalidation-mode unchecked-hash /opt/venv

FROM builder AS spark-packages
COPY tools/locks/spark.lock /build/
# pyspark is published as source alone: it is built with what the build lock has. The Spark that it
# brings goes to its usual place, without what a driver and an executor have no use for: Spark Connect
# (the folder connect-repl alone is 58 MB), RocksDB (state of streaming queries, 69 MB), machine learning
# and graphs (45 MB), the shell, YARN, the Thrift server, other systems' native libraries, Arrow Flight
# (36 MB), libraries of Arrow that lie there again under other names, the asynchronous client of
# Kubernetes (68 MB), of the other all but what sends a request (57 MB), and gRPC, by which the client of
# OpenSearch cannot speak yet (22 MB). botocore signs requests, and needs no
# service of AWS for that but those that give credentials. pip notes the checksum of what it installs, so
# the wheel may have no date either. The archive of classes below fits jars of one date only: they get it
# here, because not every builder gives one before the image's end.
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    export SOURCE_DATE_EPOCH=315532800 \
 && pip --python /build/venv/bin/python wheel --no-build-isolation --require-hashes \
      --wheel-dir /build/wheels -r /build/spark.lock \
 && pip --python /opt/venv/bin/python install --no-compile --no-index --report /build/report.json \
      /build/wheels/*.whl \
 && rm -rf /build/wheels \
 && cd /opt/venv/lib/python3.*/site-packages \
 && mkdir /opt/spark \
 && mv pyspark/jars pyspark/bin pyspark/licenses /opt/spark/ \
 && cd /opt/spark/jars \
 && rm -rf connect-repl rocksdbjni-* spark-connect_* spark-pipelines_* \
      spark-mllib* spark-graphx_* breeze* spire* cats-kernel_* algebra_* JTransforms-* JLargeArrays-* \
      arpack* blas-* lapack-* spark-repl_* spark-yarn_* spark-hive-thriftserver_* hive-beeline-* \
      hive-cli-* hive-jdbc-* netty-codec-native-quic-* *-osx-*.jar *-windows-*.jar \
 && find /opt/spark/jars -type f -exec touch -d @315532800 {} + \
 && cd /opt/venv/lib/python3.*/site-packages \
 && rm -rf /opt/spark/bin/*.cmd /opt/spark/bin/docker-image-tool.sh \
      pyspark/data pyspark/examples pyspark/python/lib pyspark/sbin \
      numpy/_core/include pandas/tests pyarrow/include pyarrow/tests \
      pyarrow/*flight* pyarrow/src pyarrow/libarrow_python*.so \
      pyarrow/libarrow_python*.so.*.*.* kubernetes/aio grpc google/protobuf google/_upb opensearch \
 && find pyarrow -name "*.p[xy][xdi]" -delete \
 && find kubernetes/client -name "*.py" \( -path "*/api/*" -o -path "*/models/*" \) \
      ! -name "__init__*" -delete \
 && strip --strip-unneeded pyarrow/*.so* \
 && strip-debugging . \
 && find botocore/data -mindepth 1 -maxdepth 1 -type d ! -name signin ! -name "sso*" ! -name sts \
      -exec rm -rf {} + \
 && python3 -m compileall -q -f --invalidation-mode unchecked-hash /opt/venv

FROM builder AS application
COPY LICENSE pyproject.toml /build/source/
COPY crds/icdc_api /build/source/crds/icdc_api
COPY operator/icdc_operator /build/source/operator/icdc_operator
COPY operator/icdc_cli /build/source/operator/icdc_cli
COPY sparkapps/icdc_spark /build/source/sparkapps/icdc_spark
# One wheel for both images. The page that it would carry is no part of them.
RUN cd /build/source && touch README.md \
 && /build/venv/bin/python -m hatchling build --target wheel --directory /build/wheels \
 && pip --python /opt/venv/bin/python install --no-compile --no-index --root /application /build/wheels/*.whl \
 && python3 -m compileall -q -f --invalidation-mode unchecked-hash -s /application /application

# --- Java, jars, Spark.

FROM python AS jdk
RUN --mount=type=bind,source=tools/images/java/undated_keystore.py,target=/build/undated_keystore.py \
    apt-get update --quiet \
 && mkdir -p /usr/share/man/man1 \
 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends \
      openjdk-17-jdk-headless \
 && python3 /build/undated_keystore.py /etc/ssl/certs/java/cacerts \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

FROM jdk AS java-runtime
# A runtime of the modules that Spark, Iceberg, their clients and tools that observe a JVM (JMX, Flight
# Recorder, agents, jdwp) may use: all of Java SE, and of the JDK's own what is not its compiler, its
# tools or names of months in other languages. No archive of classes of its own: there is ours.
# What scanners of images and our bills of materials know it by is its package's entry.
# The plugin that would spare a start 0.05 s makes other bytes at each build.
RUN jlink --no-man-pages --no-header-files --compress=2 --disable-plugin system-modules \
      --output /opt/java --add-modules \
java.se,jdk.attach,jdk.charsets,jdk.crypto.cryptoki,jdk.crypto.ec,jdk.httpserver,jdk.incubator.vector,\
jdk.jdwp.agent,jdk.jfr,jdk.management,jdk.management.agent,jdk.management.jfr,jdk.naming.dns,\
jdk.naming.rmi,jdk.net,jdk.nio.mapmode,jdk.random,jdk.security.auth,jdk.security.jgss,jdk.unsupported,\
jdk.xml.dom,jdk.zipfs \
 && ln -sf /etc/ssl/certs/java/cacerts /opt/java/lib/security/cacerts \
 && dpkg-query --status openjdk-17-jre-headless > /opt/openjdk-17-jre-headless

FROM python AS java
# Hadoop's client ends for a user without a name: icdc_spark/container/user_name.py gives it one.
RUN apt-get update --quiet \
 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends libnss-wrapper \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/lib/dpkg/*-old \
      /var/cache/ldconfig/aux-cache /var/log/* /usr/share/doc/*/changelog*
COPY --from=java-runtime /opt/openjdk-17-jre-headless /var/lib/dpkg/status.d/openjdk-17-jre-headless
COPY --from=java-runtime /etc/ssl/certs/java/cacerts /etc/ssl/certs/java/cacerts
COPY --from=java-runtime /opt/java /usr/lib/jvm/java
ENV JAVA_HOME=/usr/lib/jvm/java \
    PATH=/opt/venv/bin:/usr/lib/jvm/java/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

FROM jdk AS jars
RUN apt-get update --quiet \
 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends maven \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY crds/icdc_api/__init__.py crds/icdc_api/errors.py /build/icdc_api/
COPY operator/icdc_cli/__init__.py /build/icdc_cli/
COPY operator/icdc_cli/embedded/__init__.py operator/icdc_cli/embedded/jar_lock.py \
     operator/icdc_cli/embedded/jars.lock operator/icdc_cli/embedded/jars.py \
     operator/icdc_cli/embedded/maven.py operator/icdc_cli/embedded/programs.py \
     /build/icdc_cli/embedded/
RUN --mount=type=secret,id=settings.xml,target=/root/.m2/settings.xml \
    cd /build && python3 -m icdc_cli.embedded.jars fetch spark image --into /jars \
 && rm -rf /root/.cache /root/.m2/repository \
 && find /jars -type f -exec touch -d @315532800 {} +

FROM java AS spark-home
COPY --from=spark-packages /opt/spark /opt/spark
COPY --from=jars /jars /opt/spark/jars
# In a layer of its own: the archive below fits only jars with the dates that they have in the image.
RUN --mount=type=bind,source=tools/images/java/spark_class_data.py,target=/build/spark_class_data.py \
    python3 /build/spark_class_data.py jar /opt/spark

# --- Bills of materials, in stages of their own: they change with each version.

FROM python AS operator-sbom
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=1980-01-01T00:00:00Z
COPY tools/images/image_sbom.py tools/images/sbom_formats.py tools/locks/operator.lock /build/
RUN --mount=type=bind,from=operator-packages,source=/build/report.json,target=/report.json \
    python3 /build/image_sbom.py operator "${VERSION}" "${REVISION}" "${CREATED}" --into /sbom \
      --lock /build/operator.lock --report /report.json

FROM spark-home AS spark-sbom
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=1980-01-01T00:00:00Z
COPY tools/images/image_sbom.py tools/images/sbom_formats.py tools/locks/spark.lock \
     operator/icdc_cli/embedded/jars.lock /build/
RUN --mount=type=bind,from=spark-packages,source=/build/report.json,target=/report.json \
    python3 /build/image_sbom.py spark "${VERSION}" "${REVISION}" "${CREATED}" --into /sbom \
      --lock /build/spark.lock --report /report.json \
      --jars-lock /build/jars.lock --jars /opt/spark/jars

FROM spark-home AS class-data
COPY tools/images/java/spark_class_data.py tools/images/java/spark_classes.gz /build/
RUN python3 /build/spark_class_data.py dump /build/spark_classes.gz /opt/spark

# --- The images.

FROM python AS operator
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=1980-01-01T00:00:00Z
COPY --from=operator-packages /opt/venv /opt/venv
COPY --from=application /application/opt/venv /opt/venv
RUN --mount=type=bind,from=operator-sbom,source=/sbom,target=/build/sbom \
    install -d -m 755 /usr/share/doc/iceberg-cdc-operator \
 && install -m 644 /build/sbom/*.json /usr/share/doc/iceberg-cdc-operator/
LABEL org.opencontainers.image.title="iceberg-cdc-operator" \
      org.opencontainers.image.description="Watches pipelines from Apache Iceberg to OpenSearch" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
USER 185:185
WORKDIR /tmp
ENTRYPOINT ["/usr/bin/tini", "--", "icdc-operator"]

FROM spark-home AS spark
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=1980-01-01T00:00:00Z
COPY --from=class-data /opt/spark/classes.jsa /opt/spark/classes.jsa
COPY --from=spark-packages /opt/venv /opt/venv
COPY --from=application /application/opt/venv /opt/venv
# Not COPY --chmod: BuildKit gives the folders that it makes on the way the mode of the file, and a
# driver could not enter them; without --chmod a file has the mode of the checkout that it is from.
RUN --mount=type=bind,source=sparkapps/entrypoints,target=/build/entrypoints \
    --mount=type=bind,from=spark-sbom,source=/sbom,target=/build/sbom \
    install -d -m 755 /opt/iceberg-cdc-operator /usr/share/doc/iceberg-cdc-operator \
 && install -m 644 /build/sbom/*.json /usr/share/doc/iceberg-cdc-operator/ \
 && install -m 644 /build/entrypoints/main.py /opt/iceberg-cdc-operator/main.py \
 && install -m 755 /build/entrypoints/decommission.py /opt/decom.sh
LABEL org.opencontainers.image.title="iceberg-cdc-operator Spark" \
      org.opencontainers.image.description="Driver and executors of pipelines from Apache Iceberg to OpenSearch" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
ENV SPARK_HOME=/opt/spark
USER 185:185
WORKDIR /tmp
ENTRYPOINT ["/usr/bin/tini", "-s", "--", "/opt/venv/bin/python", "-m", "icdc_spark.container"]
