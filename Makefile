# `make demo` and `make test` need Python >= 3.10, make and a C++17 compiler. They set up .venv, reuse
# it, and compile again what changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Two workers fit two cores; each computes on one thread, so that they do not fight over them.
PYTEST_ARGS ?= -n 2 --dist loadscope
DEMO_ARGS ?=
BENCH_ARGS ?=

# When one of these changes, installing again compiles what depends on it. Directories are listed
# too: their time changes when a file comes or goes.
NATIVE := pyproject.toml CMakeLists.txt schema/vpu.fbs $(shell find cmake kernels)

# Installed by hand so that pip needs no build isolation, which would download ExecuTorch and its
# dependencies a second time. The list stands in pyproject.toml only.
BUILD_REQUIREMENTS = sed -n '/^requires = \[/,/^\]/ s/^ *\("[^"]*"\).*/\1/p' pyproject.toml

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help:  ## Print this.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: $(VENV)/installed-demo  ## Train, quantize, lower and run a network on the VPU: examples/digits_demo.py.
	@echo "==> Running the demo"
	$(BIN)/python examples/digits_demo.py $(DEMO_ARGS)

.PHONY: test
test: $(VENV)/installed-test  ## Run all tests.
	@echo "==> Running the tests"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

SANITIZE := PATH="$(CURDIR)/$(BIN):$$PATH" tests/sanitize
RUNNING := tests/kernels/test_instructions.py tests/kernels/test_threads.py

.PHONY: sanitize
sanitize: $(VENV)/installed-test  ## Test the interpreter under AddressSanitizer, UBSan and ThreadSanitizer.
	@echo "==> Running the tests that run programs, with sanitizers"
	$(SANITIZE) address,undefined $(RUNNING) tests/kernels/test_tampering.py tests/runtime/test_blob.py \
	  tests/runtime/test_limits.py
	DELEGATE=ON $(SANITIZE) thread $(RUNNING) tests/runtime/test_concurrency.py \
	  tests/runtime/test_delegate_threads.py

FUZZ_SECONDS ?= 600

.PHONY: fuzz
fuzz: build/fuzz-corpus  ## Run random programs on every instruction set, with sanitizers. Needs Clang.
	@echo "==> Fuzzing for $(FUZZ_SECONDS) seconds"
	PATH="$(CURDIR)/$(BIN):$$PATH" tests/fuzz/run $(FUZZ_SECONDS) $<

.PHONY: lint
lint: build/typing  ## Check style and types.
	@echo "==> Checking style and types"
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --package executorch_vpu
	$(BIN)/mypy examples benchmarks docs
	$(BIN)/clang-format --dry-run -Werror $(shell find examples kernels tests -name '*.h' -o -name '*.cpp')

.PHONY: docs
docs: $(VENV)/installed-test  ## Write the generated parts of docs/ again.
	$(BIN)/python -m docs.generate_op_support
	$(BIN)/python -m docs.generate_images
	$(BIN)/python -m docs.generate_benchmarks

.PHONY: bench
bench: $(VENV)/installed-bench  ## Measure whole models against other runtimes: benchmarks/.
	$(BIN)/python -m benchmarks.whole_models $(BENCH_ARGS)

.PHONY: clean
clean:  ## Remove everything that was built, .venv included.
	rm -rf $(VENV) build demo-output

# The package, compiled and editable, with the extra that follows "installed-".
$(VENV)/installed-%: $(VENV)/build-requirements $(NATIVE)
	@echo "==> Compiling the interpreter and installing executorch-vpu[$*] into $(VENV)"
	$(BIN)/pip install --no-build-isolation --editable '.[$*]'
	@touch $@

$(VENV)/build-requirements: pyproject.toml | $(BIN)/python
	@echo "==> Installing the build requirements into $(VENV)"
	$(BUILD_REQUIREMENTS) | xargs $(BIN)/pip install
	@touch $@

$(BIN)/python:
	@echo "==> Creating $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "$(PYTHON) is older than 3.10; choose another with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What fuzzing starts from.
build/fuzz-corpus: $(VENV)/installed-test $(shell find backend -name '*.py') \
    tests/fuzz/corpus.py tests/kernels/cases.py tests/ops/samples.py
	@echo "==> Writing the programs that fuzzing starts from"
	@rm -rf $@
	$(BIN)/python -m tests.fuzz.corpus $@

# The package as it is installed, which mypy cannot learn from an editable install.
build/typing: $(VENV)/installed-test
	@rm -rf $@ && mkdir -p $@/executorch_vpu/schema
	@ln -s $(addprefix $(CURDIR)/,backend partitioner quantizer) \
	  $(wildcard $(CURDIR)/backend/public/executorch_vpu/*.py) $@/executorch_vpu
	@ln -s $(CURDIR)/schema/__init__.py $(CURDIR)/build/editable/generated/vpu_generated.py \
	  $@/executorch_vpu/schema
