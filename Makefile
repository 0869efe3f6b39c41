PYTHON ?= python3
PYTEST_ARGS ?=
BIN := .venv/bin
PACKAGES := perfmodel campaigns tables

# pip compiles modules one by one, which is most of its time: compileall does it on every core, but for the packages' tests
define install
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[$(EXTRAS)]'
	$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' .venv/lib perfmodel || true # some packages ship files that are no Python
endef

.PHONY: demo test lint style types docs pytest bench figures accuracy counts members fuzz clean

demo: .venv/demo.stamp  ## install, then rank real convolutions for real GPUs and validate; no GPU needed
	$(BIN)/python examples/demo.py

test: .venv/dev.stamp  ## install, then run every check
	$(MAKE) --no-print-directory --jobs 3 lint docs pytest

lint: style types

style: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/dev.stamp
	$(BIN)/mypy $(PACKAGES)

pytest: .venv/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal --doctest-modules $(PACKAGES) tests $(PYTEST_ARGS)

docs: .venv/dev.stamp  ## build the documentation into out/site, warnings as errors
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --quiet

bench: .venv/dev.stamp  ## measure the program's own speed; prints a table with the machine's name
	$(BIN)/python -m benchmarks

figures: .venv/dev.stamp  ## draw every figure anew
	$(BIN)/perfmodel plot all --output docs/figures

accuracy: .venv/dev.stamp  ## compute the accuracy table anew from the published measurements (PERFMODEL_DATA; minutes)
	$(BIN)/python -m tables.accuracy

counts: .venv/dev.stamp  ## fill the counts store from the published configurations (hours; resumes where it stopped)
	$(BIN)/python -m tables.counts

members: .venv/dev.stamp  ## compile the members that closed forms of the families are interpolated between (hours)
	$(BIN)/python -m tables.members

fuzz: .venv/dev.stamp  ## mutate PTX and machine code 20,000 times each, and cubins; draw many operands for each opcode
	$(BIN)/python -m tests.perfmodel.machine_code.drawn
	$(BIN)/python -m tests.perfmodel.machine_code.drawn_memory
	$(BIN)/python -m tests.perfmodel.machine_code.drawn_cases
	$(BIN)/python -m tests.perfmodel.simulator.fuzz
	$(BIN)/python -W ignore -m tests.perfmodel.machine_code.fuzz

.venv/demo.stamp: EXTRAS := compile,figures
.venv/demo.stamp: pyproject.toml
	$(install)
	touch $@

.venv/dev.stamp: EXTRAS := dev
.venv/dev.stamp: pyproject.toml
	$(install)
	touch $@ .venv/demo.stamp

clean:
	rm -rf .venv build dist out
