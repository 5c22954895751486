# The words a person types. Everything is one release build in one target folder, so llama.cpp is compiled once.

CARGO ?= cargo
BUILD := $(CARGO) build --release --locked
TEST := $(CARGO) test --release --locked

# ccache, where it is installed, keeps llama.cpp's objects over a `cargo clean`. Its own key does not know what
# `-march=native` means, so the processor is added: a cache that two machines share must not mix them.
ifneq ($(shell command -v ccache 2>/dev/null),)
processor := $(shell { uname -m; grep -m1 -E '^(flags|Features)' /proc/cpuinfo || sysctl -n machdep.cpu.brand_string; } 2>/dev/null | cksum | cut -d ' ' -f 1)
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CCACHE_NAMESPACE ?= infer-$(processor)
endif

# Models and templates for `test-real`, fetched by tests/real/fetch.sh.
real := INFER_TEST_MODELS=target/models INFER_TEST_PYTHON=target/venv/bin/python INFER_TEMPLATES=target/templates INFER_TEMPLATES_EXPECTED=target/templates.json

.PHONY: help demo test test-real bench-pull bench-llama registry lint completions install setup

help:
	@echo 'make demo         build, and ask the built-in demo model a question'
	@echo 'make test         run every test that needs no download'
	@echo 'make test-real    fetch two models (330 MB) and run the tests that need them'
	@echo 'make bench-pull   time `infer pull` beside other programs, on a hub of this machine'
	@echo 'make bench-llama  time `infer bench` beside LLAMA_BENCH=path/to/llama-bench, on the real models'
	@echo 'make registry     ask the hub whether models.toml still holds'
	@echo 'make lint         formatting and clippy, warnings denied'
	@echo 'make completions  write completions/ and the command reference of README.md again'
	@echo 'make install      build and install `infer` with cargo'

setup:
	@.ci/setup.sh

demo: setup
	$(BUILD)
	target/release/infer run demo "What is the capital of France?"

test: setup
	$(TEST)

test-real:
	@.ci/setup.sh python
	@tests/real/fetch.sh
	target/venv/bin/python tests/templates/compare.py target/templates >target/templates.json
	$(real) $(TEST) -- --ignored --skip serve_until_killed

bench-pull:
	@.ci/setup.sh python
	$(BUILD)
	@tests/real/fetch.sh venv
	target/venv/bin/python tests/real/bench_pull.py $(BENCH)

bench-llama:
	@.ci/setup.sh python
	$(BUILD)
	@tests/real/fetch.sh
	python3 tests/real/bench_llama.py --llama-bench $(LLAMA_BENCH) $(BENCH)

registry:
	python3 tests/registry/check.py

lint: setup
	$(CARGO) fmt --check
	$(CARGO) clippy --release --locked --all-targets -- -D warnings

completions: setup
	INFER_UPDATE=1 $(TEST) --test integration help::

install: setup
	$(CARGO) install --locked --path .
