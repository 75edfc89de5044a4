# shellcheck shell=bash
# Sourced by the scripts in dev/: where things are, which server is meant, who it runs as, how a long step is shown.
# shellcheck disable=SC2034  # what is set here is used by those scripts
# Decides nothing about what is built or tested. Never starts a server and never installs anything.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
[[ $TARGET == /* ]] || TARGET=$ROOT/$TARGET
mkdir -p "$TARGET"
TARGET=$(cd "$TARGET" && pwd -P)
LOGS=$TARGET/test-logs
EXTENSION=pg_dialectic
# The Python that Debian's packages are for (the first one in PATH may be another), and where Node.js finds pg.
PYTHON=/usr/bin/python3
NODE_MODULES=$TARGET/node/node_modules:/usr/share/nodejs
{ : <&0; } 2>/dev/null || exec </dev/null
SUPPORTED_MAJORS=(18 17 16 15)

say() { printf '%s\n' "$*" >&2; }
die() {
    say "error: $*"
    exit 1
}

# The version stands once, under [workspace.package] in Cargo.toml.
extension_version() { sed -n '/^\[workspace\.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' "$ROOT/Cargo.toml"; }

# The pg_config of the server that is meant: PG_CONFIG if set, else the newest supported server that is installed.
# Fails silently where there is none.
find_pg_config() {
    local major found
    if [[ -n ${PG_CONFIG:-} ]]; then
        command -v "$PG_CONFIG"
        return
    fi
    for major in "${SUPPORTED_MAJORS[@]}"; do
        for found in "/usr/lib/postgresql/$major/bin" "/usr/pgsql-$major/bin"; do
            if [[ -x $found/postgres && -x $found/pg_config ]]; then
                echo "$found/pg_config"
                return
            fi
        done
    done
    found=$(command -v pg_config) && [[ -x $("$found" --bindir)/postgres ]] && echo "$found"
}

major_of() { "$1" --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/'; }

# Sets PG_CONFIG, PG_MAJOR, PGBIN or ends with what to do.
need_server() {
    PG_CONFIG=$(find_pg_config) || die "no PostgreSQL server found; run 'make setup' or set PG_CONFIG"
    PG_MAJOR=$(major_of "$PG_CONFIG")
    PGBIN=$("$PG_CONFIG" --bindir)
    export PG_CONFIG PG_MAJOR PGBIN
}

# Postgres refuses to run as root: the server then runs as `postgres`, otherwise as whoever calls.
server_user() { if [[ $EUID -eq 0 ]]; then echo postgres; else id -un; fi; }

as_server() (
    cd / # the caller's directory may be closed to the server's user
    if [[ $EUID -ne 0 ]]; then
        exec "$@"
    elif command -v setpriv >/dev/null; then
        exec setpriv --reuid=postgres --regid=postgres --init-groups "$@"
    else
        exec runuser -u postgres -- "$@"
    fi
)

as_root() {
    if [[ $EUID -eq 0 ]]; then
        "$@"
    elif ! command -v sudo >/dev/null; then
        say "needs root: $*"
        return 1
    elif [[ -t 0 && -z ${CI:-} ]]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

# Where this checkout's clusters live: under target/ if the server's user can get there, else in a directory of our own
# in the temporary directory. A socket's path has at most 107 bytes, so a deep checkout goes there too.
cluster_home() {
    local home=$TARGET/clusters reason=''
    if [[ $EUID -eq 0 ]] && ! as_server test -x "$TARGET"; then
        reason="$(server_user) cannot reach $TARGET"
    elif ((${#home} > 60)); then
        reason="the path $TARGET is too long for a socket"
    fi
    if [[ -n $reason ]]; then
        home=${TMPDIR:-/tmp}
        if ((${#home} > 40)) || { [[ $EUID -eq 0 ]] && ! as_server test -x "$home"; }; then home=/tmp; fi
        home=$home/$EXTENSION-$EUID-$(printf %s "$ROOT" | cksum | cut -d' ' -f1)
        [[ -d $home ]] || say "note: $reason; clusters go to $home"
    fi
    [[ -d $home ]] || mkdir "$home"
    [[ -O $home && ! -L $home ]] || die "$home belongs to someone else; set TMPDIR"
    chmod 711 "$home"
    echo "$home"
}

# What left for a session of its own (a server, the watcher of a cluster) is not ours to signal.
kill_tree() {
    local child
    for child in $(pgrep -s 0 -P "$2" || true); do kill_tree "$1" "$child"; done
    kill "-$1" "$2" 2>/dev/null || true
}

# Runs a command in the background of this script but on its terminal, so that a signal to the script is acted on at
# once. Returns its status. Bash would otherwise give the command an ignored SIGINT and an empty stdin.
supervised() {
    env --default-signal=INT,QUIT "$@" <&0 &
    SUPERVISED=$!
    local status=0
    wait "$SUPERVISED" || status=$?
    SUPERVISED=
    return "$status"
}
end_supervised() {
    [[ -n ${SUPERVISED:-} ]] || return 0
    local i
    kill_tree TERM "$SUPERVISED"
    for ((i = 0; i < 400; i++)); do
        kill -0 "$SUPERVISED" 2>/dev/null || break
        sleep 0.1
    done
    kill_tree KILL "$SUPERVISED"
    # One that is gone already was waited for; to wait again would be to wait for the watcher of the cluster.
    if kill -0 "$SUPERVISED" 2>/dev/null; then wait "$SUPERVISED" 2>/dev/null || true; fi
    SUPERVISED=
}

# logged LOG LABEL COMMAND…: the output goes to LOG; the terminal shows its last line and the seconds passed, a pipe one
# line every 30 seconds. VERBOSE=1 shows everything instead.
logged() {
    local log=$1 label=$2 begin=$SECONDS status=0 ticker='' last
    shift 2
    mkdir -p "$(dirname "$log")"
    if [[ -n ${VERBOSE:-} ]]; then
        supervised "$@" > >(tee "$log") 2>&1 || status=$?
        return "$status"
    fi
    (
        trap 'kill "${nap:-}" 2>/dev/null; exit 0' TERM
        while true; do
            if [[ -t 2 ]]; then sleep 1 & else sleep 30 & fi
            nap=$!
            wait "$nap"
            last=$(tail -c 400 "$log" 2>/dev/null | tr '\r' '\n' | tr -cd '[:print:]\n' | sed '/^ *$/d' | tail -n 1)
            if [[ -t 2 ]]; then
                printf '\r\e[K…    %s %ds  %.60s' "$label" $((SECONDS - begin)) "$last" >&2
            else
                printf '…    %s %ds  %.100s\n' "$label" $((SECONDS - begin)) "$last" >&2
            fi
        done
    ) </dev/null &
    ticker=$!
    supervised "$@" >"$log" 2>&1 || status=$?
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    if [[ -t 2 ]]; then printf '\r\e[K' >&2; fi
    return "$status"
}
