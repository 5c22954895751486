#!/usr/bin/env bash
# Checks a build with CUDA on a machine with an NVIDIA GPU. Needs the driver, CUDA's libraries and, for the large model,
# Python 3; nothing is fetched. Less than ten minutes.
#
#     tests/gpu/check.sh INFER MODEL…      INFER: the program; MODEL: small files, such as SmolLM2's
#
#     OUT        keep the rows of the benchmark and the log here   [a folder that is removed]
#     LARGE      arguments for random_model.py                     [the shape of Mistral 7B, 4.4 GB]
#     LARGE_CTX  a context that no GPU has the memory for          [4000000: 0.5 TB of that shape]
#     CPU_INFER  a build without CUDA, to see it refuse a GPU      [not checked]
#
# Each check is a line with its numbers: ok, FAIL or skip. Exits with 1 when one failed.
#
# CPU and GPU add in another order, so where two tokens are about equally likely they may choose differently, and the texts
# go on apart. What must agree is the mathematics: the perplexities on the text inside the program, to 1 %. With these
# equal, most of the prompts must also give the same text for its first 32 bytes.
set -uo pipefail
[ $# -ge 2 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
infer=$1
shift
models=("$@")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=${OUT:-$work/out}
mkdir -p "$out"
log=$out/check.log
: >"$log"
# Nothing of this person's is read or changed.
unset "${!INFER_@}"
export HOME=$work XDG_CACHE_HOME=$work/cache XDG_DATA_HOME=$work/data XDG_CONFIG_HOME=$work/config
export XDG_STATE_HOME=$work/state HF_HUB_OFFLINE=1

failed=0
# say STATE NAME WORDS…
say() {
    local state=$1 name=$2
    shift 2
    printf '%-4s  %-11s %s\n' "$state" "$name" "$*" | tee -a "$log"
    [ "$state" != FAIL ] || failed=$((failed + 1))
}
# judge STATUS NAME WORDS…: ok where the status is 0
judge() {
    if [ "$1" -eq 0 ]; then shift; say ok "$@"; else shift; say FAIL "$@"; fi
}
# number KEY <json: the first number or word of this key.
number() { grep -o "\"$1\": *[^,}]*" | head -n 1 | sed 's/^[^:]*: *//; s/"//g'; }
# true_that EXPRESSION: awk's arithmetic.
true_that() { awk "BEGIN { exit !($1) }"; }
compute() { awk "BEGIN { printf \"$1\", $2 }"; }
short() { basename "$1" .gguf; }
ask() { "$infer" run "$@" --no-cache --temp 0 2>>"$log"; }
on_cpu() { CUDA_VISIBLE_DEVICES='' "$@"; }

libraries() {
    local folder
    if ldd "$infer" 2>/dev/null | grep -q 'not found'; then
        for folder in /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib \
            "$(python3 -c 'import nvidia.cu13 as c; print(list(c.__path__)[0] + "/lib")' 2>/dev/null)"; do
            [ -d "$folder" ] && export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        done
    fi
    local missing
    missing=$(ldd "$infer" 2>&1 | grep 'not found' | awk '{ print $1 }' | tr '\n' ' ')
    if [ -n "$missing" ] || ! "$infer" --version >>"$log" 2>&1; then
        say FAIL starts "$infer does not start; missing: ${missing:-no library}"
        exit 1
    fi
    say ok starts "$("$infer" --version)"
}

device() {
    local seen
    seen=$("$infer" --version -v 2>>"$log" | grep '^device .*CUDA0')
    judge $? device "${seen:-no CUDA0}"
    command -v nvidia-smi >/dev/null && nvidia-smi >>"$log" 2>&1
}

doctor() {
    local name check state
    "$infer" doctor --json >"$out/doctor.json" 2>>"$log"
    judge $? doctor "exit $?"
    for name in gpu cuda answer; do
        check=$(grep -o "{\"name\":\"$name\"[^}]*}" "$out/doctor.json")
        state=$(number state <<<"$check")
        [ "$state" = ok ]
        judge $? "doctor" "$name ${state:-is not checked}: $(grep -o '"found":"[^"]*"' <<<"$check")"
    done
}

# layers MODEL: all of them on GPUs.
layers() {
    local line
    line=$("$infer" run "$1" --no-cache --temp 0 -n 1 -v Hello 2>&1 >/dev/null | grep -E '[0-9]+/[0-9]+ layers' | head -n 1)
    # Planned, unless llama.cpp took more or fewer.
    local planned all took
    read -r planned all < <(grep -oE '[0-9]+/[0-9]+ layers' <<<"$line" | awk -F '[/ ]' '{ n += $1; all = $2 } END { print n, all }')
    took=$(sed -nE 's/.*llama.cpp took ([0-9]+).*/\1/p' <<<"$line")
    [ -n "$all" ] && [ "${took:-$planned}" -eq "$all" ]
    judge $? layers "$(short "$1"): ${line:-no load line}"
}

# planned MODEL: the bytes that the plan puts on GPUs, without the margin that it leaves free.
planned() {
    "$infer" fit "$1" --device cuda --json 2>>"$log" | grep -o '{"name":"CUDA[^}]*"weights"[^}]*}' |
        grep -oE '"(weights|cache|marks|compute|output)":[0-9]+' |
        awk -F : '{ sum += $2 } END { if (NR) printf "%.0f", sum }'
}

# vram MODEL: what was planned, and what the GPUs have less.
vram() {
    local plan used off
    plan=$(planned "$1")
    used=$(ask "$1" -n 8 --json Hello | number vram)
    if [ -z "$plan" ] || ! [ "${used:-null}" -gt 0 ] 2>/dev/null; then
        say FAIL vram "$(short "$1"): planned ${plan:-nothing}, used ${used:-nothing}"
        return
    fi
    off=$(compute '%+.1f' "100 * ($used / $plan - 1)")
    # CUDA and cuBLAS make pools of their own at the first use.
    true_that "$used - $plan < 0.05 * $plan + 100e6 && $plan - $used < 0.05 * $plan"
    judge $? vram "$(short "$1"): planned $(compute '%.0f' "$plan / 1e6") MB, used $(compute '%.0f' "$used / 1e6") MB ($off %; within 5 % and 100 MB for CUDA's pools)"
}

# same_maths MODEL: the perplexities of CPU and GPU.
same_maths() {
    local cpu gpu off
    cpu=$(on_cpu "$infer" quantize --compare "$1" --json 2>>"$log" | number value)
    gpu=$("$infer" quantize --compare "$1" --json 2>>"$log" | number value)
    off=$(compute '%.3f' "100 * (${gpu:-0} / ${cpu:-1} - 1)")
    true_that "${cpu:-0} > 0 && $off < 1 && $off > -1"
    judge $? perplexity "$(short "$1"): CPU ${cpu:-none}, GPU ${gpu:-none} ($off %; within 1 %)"
}

# same_text MODEL FLAG…: how far the answers of CPU and GPU agree.
same_text() {
    local model=$1 prompt far=0 count=0 where
    shift
    for prompt in "What is the capital of France?" "Count from 1 to 20." "Write a short poem about the sea." \
        "Explain in one sentence why the sky is blue."; do
        count=$((count + 1))
        on_cpu "$infer" run "$model" "$@" --no-cache --temp 0 -n 96 "$prompt" >"$work/cpu.txt" 2>>"$log"
        ask "$model" "$@" -n 96 "$prompt" >"$work/gpu.txt"
        where=$(cmp "$work/cpu.txt" "$work/gpu.txt" 2>&1 | sed -nE 's/.*(byte|char) ([0-9]+).*/\2/p')
        if ! [ -s "$work/cpu.txt" ] || ! [ -s "$work/gpu.txt" ]; then
            say FAIL text "$(short "$model") $*: no answer to \"$prompt\""
        elif cmp -s "$work/cpu.txt" "$work/gpu.txt"; then
            far=$((far + 1))
            say ok text "$(short "$model") $*: the same $(wc -c <"$work/gpu.txt") bytes to \"$prompt\""
        else
            [ "${where:-1}" -gt 32 ] && far=$((far + 1))
            say ok text "$(short "$model") $*: apart from byte ${where:-1} on to \"$prompt\""
        fi
    done
    [ $((2 * far)) -gt "$count" ]
    judge $? text "$(short "$model") $*: $far of $count agree for 32 bytes or to the end"
}

large_model() {
    large=$work/large.gguf
    if ! command -v python3 >/dev/null; then
        large=
        say skip large "no Python 3 to make the model with"
        return
    fi
    # shellcheck disable=SC2086 # several arguments
    python3 "$here/random_model.py" "$large" ${LARGE:-} 2>>"$log"
    judge $? large "$(wc -c <"$large") bytes of random weights"
}

bench() {
    local row
    "$infer" bench "${models[@]}" ${large:+"$large"} -p 512 -g 128 -d 0,2048 -r 5 -o jsonl >"$out/bench.jsonl" 2>>"$log"
    judge $? bench "$(wc -l <"$out/bench.jsonl") rows"
    while read -r row; do
        local pct limit="no limit known"
        pct=$(number roofline_pct <<<"$row")
        if [ "${pct:-null}" != null ]; then
            limit="$(compute %.1f "$pct") % of the limit by $(number roofline_bound <<<"$row")"
        fi
        # More than the limit means that it was measured wrongly. A whole answer may have none.
        true_that "0${pct/null/} > 0 && 0${pct/null/} <= 105" || [[ $(number test <<<"$row") == pp*+tg* ]]
        judge $? bench "$(printf '%-28s %-16s %10.1f tokens/s, %s, vram %s' "$(short "$(number model <<<"$row")")" \
            "$(number test <<<"$row")" "$(number avg_ts <<<"$row")" "$limit" "$(number vram <<<"$row")")"
    done <"$out/bench.jsonl"
}

# refused CODE NAME WORDS -- COMMAND…: exits with this code, and says an error.
refused() {
    local wanted=$1 name=$2 what=$3 code said
    shift 4
    said=$("$@" 2>&1 >/dev/null)
    code=$?
    printf '%s\n' "$said" >>"$log"
    said=$(grep '^error: ' <<<"$said" | head -n 1)
    [ "$code" -eq "$wanted" ] && [ -n "$said" ]
    judge $? "$name" "$what: exit $code, wanted $wanted; ${said:-no error line}"
}

refusals() {
    local run=(run "${models[0]}" --no-cache -n 1 Hello)
    refused 1 device "--device cuda99" -- "$infer" "${run[@]}" --device cuda99
    refused 1 device "--device vulkan" -- "$infer" "${run[@]}" --device vulkan
    refused 1 device "--device cuda, all GPUs hidden" -- on_cpu "$infer" "${run[@]}" --device cuda
    [ -z "${CPU_INFER:-}" ] || refused 1 device "--device cuda, a build without it" -- "$CPU_INFER" "${run[@]}" --device cuda
    local used
    used=$(ask "${models[0]}" -n 1 --device cpu --json Hello | number vram)
    true_that "0${used/null/} < 100e6"
    judge $? device "--device cpu takes ${used:-nothing} bytes of a GPU"
}

too_big() {
    local model=${large:-${models[0]}} ctx=${LARGE_CTX:-4000000}
    for where in auto all; do
        refused 5 memory "--ctx $ctx --gpu-layers $where" -- \
            "$infer" run "$model" --no-cache -n 1 --ctx "$ctx" --gpu-layers "$where" Hello
    done
    ask "${models[0]}" -n 4 Hello >/dev/null
    judge $? memory "the GPU still answers afterwards"
}

libraries
device
doctor
for model in "${models[@]}"; do
    layers "$model"
    vram "$model"
    same_maths "$model"
    same_text "$model"
    same_text "$model" --kv q8_0
done
refusals
large_model
if [ -n "$large" ]; then
    layers "$large"
    vram "$large"
fi
bench
too_big
printf '%s failed, %d seconds\n' "$failed" "$SECONDS" | tee -a "$log"
[ "$failed" -eq 0 ]
