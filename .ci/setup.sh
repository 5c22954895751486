#!/usr/bin/env bash
# Checks for what a build needs and installs what is missing where that is one command (Debian, Ubuntu); elsewhere it
# names the packages. Words ask for more: `python` (python3 with venv, for the real-model tests), `ccache` (optional).
#
#   .ci/setup.sh [python] [ccache]
#
# Silent and quick when everything is there, because `make` calls it every time. Runs under bash 3.2.
set -euo pipefail

rust_minor=88 # keep equal to `rust-version` in Cargo.toml

have() { command -v "$1" >/dev/null 2>&1; }

# Any of the files that a list of globs names.
any_file() {
    local file
    for file in "$@"; do
        [ -e "$file" ] && return 0
    done
    return 1
}

have_compiler() {
    [ -n "${CXX:-}" ] && return 0
    if [ "$(uname -s)" = Darwin ]; then
        xcode-select -p >/dev/null 2>&1 # /usr/bin/c++ is there even when no compiler is
    else
        have c++ || have g++ || have clang++
    fi
}

# bindgen reads llama.cpp's headers through libclang: the library, and on Debian also its own headers, which come in
# another package. The places are the ones that the clang-sys crate searches.
have_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    case "$(uname -s)" in
        Darwin)
            any_file /Library/Developer/CommandLineTools/usr/lib/libclang.dylib \
                /Applications/Xcode*.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib/libclang.dylib \
                /usr/local/opt/llvm*/lib/libclang.dylib
            ;;
        *)
            any_file /usr/lib*/libclang[-.]*so* /usr/lib*/*/libclang[-.]*so* /usr/lib*/*/*/libclang[-.]*so* \
                /usr/local/lib*/libclang[-.]*so* /usr/local/llvm*/lib*/libclang[-.]*so* || have llvm-config || return 1
            ! have apt-get || any_file /usr/lib/llvm-*/lib/clang/*/include/stddef.h
            ;;
    esac
}

have_python() { have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }

# What is missing: words for the messages, packages for apt-get.
missing="" debs=""
want() { # WORD PACKAGE CHECK…
    local word=$1 package=$2
    shift 2
    "$@" || { missing="$missing, $word" && debs="$debs $package"; }
}

want "a C++ compiler" build-essential have_compiler
want cmake cmake have "${CMAKE:-cmake}"
want make make have make # cmake builds with it
want libclang libclang-dev have_libclang
optional=""
for word in "$@"; do
    case "$word" in
        python) want "python3 with venv" python3-venv have_python ;;
        ccache) have ccache || optional=" ccache" ;;
        *) echo "setup: unknown word \`$word\`" >&2 && exit 2 ;;
    esac
done

# Installs $debs and $optional, one line about it on stderr; apt's own words only when it fails.
install() {
    local sudo=""
    if [ "$(id -u)" != 0 ]; then
        have sudo || { echo "setup: type as root: apt-get install$debs" >&2 && return 1; }
        sudo=sudo
    fi
    echo "setup: ${sudo:+sudo }apt-get install$debs$optional" >&2
    local log
    log=$(mktemp)
    # shellcheck disable=SC2086 # both are lists of words
    if { $sudo apt-get update &&
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $debs $optional; } </dev/null >"$log" 2>&1; then
        rm -f "$log"
    else
        tail -n 20 "$log" >&2
        rm -f "$log"
        echo "setup: apt-get failed" >&2
        return 1
    fi
}

[ -z "$missing" ] || echo "setup: missing: ${missing#, }" >&2
if have apt-get; then
    if [ -n "$debs$optional" ]; then
        install || [ -z "$debs" ] || exit 1 # what is only optional stops nobody
    fi
elif [ -n "$debs" ]; then
    cat >&2 <<'EOF'
setup: install these, then type the same command again
  Fedora    sudo dnf install gcc-c++ cmake clang-devel python3
  Arch      sudo pacman -S --needed base-devel cmake clang python
  Homebrew  xcode-select --install; brew install cmake python
            (without Xcode's libclang: brew install llvm; export LIBCLANG_PATH="$(brew --prefix llvm)/lib")
EOF
    exit 1
fi

if ! have cargo; then
    echo "setup: missing cargo: install Rust 1.$rust_minor or newer with rustup (https://rustup.rs)" >&2
    exit 1
fi
version=$(cargo --version) # "cargo 1.95.0 (…)"
minor=${version#cargo 1.}
minor=${minor%%.*}
case "$minor" in
    '' | *[!0-9]*) ;; # not a version that this line understands: let cargo speak for itself
    *)
        if [ "$minor" -lt "$rust_minor" ]; then
            echo "setup: $version is too old: Rust 1.$rust_minor or newer is needed, for example \`rustup update stable\`" >&2
            exit 1
        fi
        ;;
esac

# Flags of one's own replace those of .cargo/config.toml, and with them what keeps some processors from decoding at half
# their speed.
if grep -q avx512_fp16 /proc/cpuinfo 2>/dev/null; then
    for flags in "${CFLAGS-}" "${CXXFLAGS-}"; do
        case "$flags" in
            '' | *-U__AVX512FP16__* | *-mno-avx512fp16*) ;;
            *) echo "setup: add -U__AVX512FP16__ to CFLAGS and CXXFLAGS: llama.cpp is slow on this processor without" >&2 ;;
        esac
    done
fi
