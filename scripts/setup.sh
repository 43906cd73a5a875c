#!/bin/sh
# Brings a fresh machine to the point where the Makefile's targets can run.
#
#   scripts/setup.sh venv    .venv with the project (editable) and every development package
#   scripts/setup.sh tools   what the tests need besides Python: a C compiler and git; and, where
#                            Debian's packages can be had, .tools/pgbouncer
#   scripts/setup.sh agents  .tools/agents: the real agents of tests/real_agents/versions.txt, by npm
#   scripts/setup.sh mcp     there too: the MCP inspector and suite of tests/mcp/versions.txt
#
# Silent and quick when nothing is missing. What is missing is installed where that needs no
# question (pip into .venv; apt-get when run as root), else named in one line with the command.
set -eu

cd "$(dirname "$0")/.."
root=$(pwd -P)
venv=.venv
stamp=$venv/.forestay-setup
log=$venv/setup.log

say() { echo "forestay setup: $*" >&2; }
die() { say "$@"; exit 1; }

# --- .venv ---------------------------------------------------------------------------------

# The folder is part of the stamp: a copied or moved .venv still points at the old place.
wanted_stamp() { { echo "$root"; cat pyproject.toml constraints.txt; } | cksum; }

# Found, not imported: a mistake in the code is for the target to show.
has_package() {
    "$venv/bin/python" -c 'import sys
from importlib.util import find_spec
sys.exit(find_spec("forestay") is None)' 2>/dev/null
}

is_ready() { [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(wanted_stamp)" ] && has_package; }

is_usable() { grep -qF "$root/$venv" "$venv/bin/activate" 2>/dev/null && has_pip; }

has_pip() { "$venv/bin/python" -m pip --version >/dev/null 2>&1; }

# Running it is the only proof: version-manager shims exist for versions that are not there.
suits() {
    "$1" -c 'import sys, sqlite3
sys.exit(sys.version_info < (3, 11) or sqlite3.sqlite_version_info < (3, 37))' 2>/dev/null
}

can_make_venvs() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

find_python() {
    python=
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
        suits "$candidate" || continue
        if can_make_venvs "$candidate"; then python=$candidate; return; fi
        [ -n "$python" ] || python=$candidate
    done
    [ -n "$python" ] || die "no Python 3.11 or newer (with sqlite3 3.37 or newer) is on the PATH;" \
        "install one, or name it: make PYTHON=/path/to/python3"
}

need_venv_module() {
    can_make_venvs "$python" && return
    version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    apt_install "$version-venv" "the venv module of $python"
    can_make_venvs "$python" || die "$python still cannot make virtual environments" \
        "after installing $version-venv"
}

make_venv() {
    find_python
    need_venv_module
    say "making $venv with $("$python" --version) (once; about half a minute)"
    rm -rf "$venv"
    "$python" -m venv "$venv" >/dev/null || die "$python could not make $venv"
}

network_trouble='from versions: none|NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError'
network_trouble="$network_trouble|name resolution|unreachable|connection (refused|reset|broken|aborted)"

install_packages() {
    # Both names: older pips hold isolated builds to the first, newer ones to the second.
    if PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
        PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 \
        "$venv/bin/python" -m pip install --retries 2 -e '.[dev]' >"$log" 2>&1; then return; fi
    if grep -qiE "$network_trouble" "$log"; then
        die "the package index cannot be reached; check the network and run the same command" \
            "again (pip's words: $log)"
    fi
    die "pip failed: $(grep -i error "$log" | tail -n 1) (all its words: $log)"
}

setup_venv() {
    if is_ready; then return; fi
    is_usable || make_venv
    install_packages
    wanted_stamp >"$stamp"
}

# --- packages of the system ----------------------------------------------------------------

# apt_install "PACKAGE…" WHAT: installs as root on Debian and its kin, else names the command.
apt_install() {
    command -v apt-get >/dev/null 2>&1 || die "$2 is missing; install it with your package manager"
    [ "$(id -u)" = 0 ] || die "$2 is missing; run: sudo apt-get install $1"
    say "$2 is missing; installing $1"
    # A list that cannot be refreshed need not matter; what matters is whether the package comes.
    apt-get update -qq >/dev/null 2>&1 || true
    # shellcheck disable=SC2086  # several packages are several words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $1 >/dev/null 2>&1 </dev/null \
        || die "$2 could not be installed; try: apt-get update && apt-get install $1"
}

compiles() {
    compiler=$(command -v cc || command -v gcc || command -v clang) || return 1
    # Headers too: a compiler without those of the C library is of no use to the fault shim.
    printf '#include <stdlib.h>\n#include <dlfcn.h>\n' | "$compiler" -x c -fsyntax-only - 2>/dev/null
}

setup_tools() {
    if ! compiles; then
        [ "$(uname)" != Darwin ] || die "a C compiler is missing; run: xcode-select --install"
        apt_install "gcc libc6-dev" "a C compiler for the crash tests"
    fi
    command -v git >/dev/null 2>&1 || apt_install git "git for the tests"
    setup_pooler
}

# --- a pooler ------------------------------------------------------------------------------

pooler=.tools/pgbouncer

# Running it is the only proof here, too: its libraries may have gone, or the folder have moved.
has_pooler() {
    for program in pgbouncer /usr/sbin/pgbouncer "$pooler/pgbouncer"; do
        if "$program" --version >/dev/null 2>&1; then return; fi
    done
    return 1
}

# apt_quickly COMMAND…: a network that does not answer keeps nobody waiting.
apt_quickly() { apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 "$@" </dev/null; }

# What would be installed, without what is of use to an installed service only.
pooler_packages() {
    apt_quickly install --simulate --no-install-recommends pgbouncer \
        | awk '$1 == "Inst" && $2 ~ /^(pgbouncer$|lib)/ && $2 !~ /perl/ { print $2 }'
}

download_pooler() {
    packages=$(pooler_packages)
    # shellcheck disable=SC2086  # several packages are several words
    [ -n "$packages" ] && (cd "$pooler" && apt_quickly download $packages)
}

# Unpacked, not installed: installing would start a service, and needs root.
unpack_pooler() {
    download_pooler || { [ "$(id -u)" = 0 ] && apt_quickly update && download_pooler; } || return
    for package in "$pooler"/*.deb; do dpkg-deb -x "$package" "$pooler" || return; done
    folders=$(find "$root/$pooler" -name 'lib*.so.*' -exec dirname {} + | sort -u | paste -sd : -)
    printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' \
        "$folders" "$root/$pooler/usr/sbin/pgbouncer" >"$pooler/pgbouncer"
    chmod 755 "$pooler" "$pooler/pgbouncer"
    "$pooler/pgbouncer" --version
}

# Its tests are skipped where it cannot be had; that is not tried again for a day.
setup_pooler() {
    command -v apt-get >/dev/null 2>&1 || return 0
    if has_pooler || [ -n "$(find "$pooler/setup.log" -mtime -1 2>/dev/null)" ]; then return; fi
    say "unpacking pgbouncer into $pooler"
    rm -rf "$pooler"
    mkdir -p "$pooler"
    if unpack_pooler >"$pooler/setup.log" 2>&1; then
        rm -f "$pooler"/*.deb "$pooler/setup.log"
    else
        say "pgbouncer could not be had, its tests are skipped (apt's words: $pooler/setup.log)"
    fi
}

# --- agents --------------------------------------------------------------------------------

platform() {
    case $(uname -m) in x86_64 | amd64) processor=x64 ;; *) processor=arm64 ;; esac
    echo "$(uname | tr '[:upper:]' '[:lower:]')-$processor"
}

# Each in a folder of its own, so that one that cannot be had does not keep the others away.
# No script of a package is run: what an agent needs comes with its package for the platform.
install_agent() {
    folder=.tools/agents/$1
    [ "$(cat "$folder/.forestay-setup" 2>/dev/null)" != "$2@$3" ] || return 0
    say "installing $1 $3 into $folder"
    rm -rf "$folder"
    mkdir -p "$folder"
    echo '{"private": true}' >"$folder/package.json"
    (cd "$folder" && npm install --ignore-scripts --no-audit --no-fund --no-package-lock \
        "$2@$3" >setup.log 2>&1 </dev/null) \
        || { say "$1 could not be installed (npm's words: $folder/setup.log)"; return 0; }
    echo "$2@$3" >"$folder/.forestay-setup"
}

# setup_agents LIST
setup_agents() {
    command -v npm >/dev/null 2>&1 || apt_install "nodejs npm" "npm for the agents"
    here=$(platform)
    while read -r name package version; do
        case $name in '' | '#'*) continue ;; esac
        install_agent "$name" "$(echo "$package" | sed "s/PLATFORM/$here/")" "$version"
    done <"$1"
}

case ${1:-} in
venv) setup_venv ;;
tools) setup_tools ;;
agents) setup_agents tests/real_agents/versions.txt ;;
mcp) setup_agents tests/mcp/versions.txt ;;
*) die "usage: scripts/setup.sh venv|tools|agents|mcp" ;;
esac
