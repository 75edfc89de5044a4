# The official Postgres image plus pg_dialectic, pgvector and pg_cron.
#
#   docker build -t pg_dialectic .
#   docker build -t pg_dialectic --build-arg PG_MAJOR=17 .
#
# The extension is built on the very image it will run in, with a Rust toolchain from RUST_IMAGE. Any Debian with apt can
# stand in for PG_IMAGE; dev/setup adds what it lacks.
ARG PG_MAJOR=15
ARG PG_IMAGE=postgres:${PG_MAJOR}-bookworm
ARG RUST_IMAGE=rust:1.95-bookworm

FROM ${RUST_IMAGE} AS rust

FROM ${PG_IMAGE} AS build
ENV CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup PATH=/usr/local/cargo/bin:$PATH CI=true
COPY --from=rust /usr/local/rustup /usr/local/rustup
COPY --from=rust /usr/local/cargo /usr/local/cargo
WORKDIR /build
# The tools first: this layer stays while only the sources change.
COPY Cargo.toml ./
COPY dev ./dev
RUN apt-get update && dev/setup && rm -rf /var/lib/apt/lists/*
COPY . .
RUN PROFILE=release DESTDIR=/out dev/install
RUN bash -c 'set -e; . dev/lib.sh; need_server; share=$("$PG_CONFIG" --sharedir)/extension; \
    for name in vector pg_cron; do \
        cp --parents "$("$PG_CONFIG" --pkglibdir)/$name.so" "$share/$name.control" "$share/$name"--*.sql /out; \
    done'

FROM ${PG_IMAGE}
# The authorities that providers' certificates are checked against: the base has none.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/ /
# The worker of every database that has the extension; what the user gives after the image name still counts.
RUN sample=$(find /usr/share/postgresql -name postgresql.conf.sample | head -n 1) && \
    echo "shared_preload_libraries = 'pg_dialectic, pg_cron'" >>"$sample"
