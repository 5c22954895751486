#!/usr/bin/env bash
# Builds `infer` for NVIDIA GPUs on a machine without GPU and without an installed toolkit, into a target folder of its
# own. 46 minutes of processor time at first; ccache, where it is installed, keeps the objects.
#
#     tests/gpu/build.sh [ARCHITECTURE]    default: 90 (H100, H200); 80 A100, 86 RTX 30, 89 RTX 40, 120 RTX 50
#
#     CARGO_TARGET_DIR  where to build       target/cuda
#     CUDA_TOOLKIT      the toolkit          target/cuda-toolkit, made by toolkit.sh
#     INFER_CPU         the CPU to build for x86-64-v3: the program is meant for another machine
#     NUM_JOBS          compilers at a time  all cores
set -euo pipefail
cd "$(dirname "$0")/../.."

architecture=${1:-90}
toolkit=$(realpath -m "${CUDA_TOOLKIT:-target/cuda-toolkit}")
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/cuda}

[ -n "${CUDA_TOOLKIT:-}" ] || tests/gpu/toolkit.sh "$toolkit"

# What CMake, llama-cpp-sys-2's build script and find_cuda_helper look at, in this order.
export CUDACXX=$toolkit/bin/nvcc CUDAToolkit_ROOT=$toolkit CUDA_PATH=$toolkit CUDA_LIBRARY_PATH=$toolkit
export CMAKE_CUDA_ARCHITECTURES=$architecture
if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
fi

# RUSTFLAGS takes the place of the `target-cpu=native` in .cargo/config.toml.
export RUSTFLAGS="-C target-cpu=${INFER_CPU:-x86-64-v3}"
build=(cargo rustc --release --locked --features cuda-no-vmm --bin infer)
[ -z "${NUM_JOBS:-}" ] || build+=(--jobs "$NUM_JOBS")
# cuBLAS is found beside the program, in this toolkit, or where the system keeps its libraries.
link=(-C "link-args=-Wl,--no-as-needed -L$toolkit/lib -lcublas" -C "link-arg=-Wl,-rpath,\$ORIGIN:$toolkit/lib")
"${build[@]}" -- "${link[@]}"

ls -l "$CARGO_TARGET_DIR/release/infer"
