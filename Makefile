PYTHON ?= python3
PYTEST_ARGS ?=
BIN := .venv/bin
PACKAGES := perfmodel campaigns tables

.PHONY: demo test lint docs bench figures accuracy counts members fuzz clean

demo: .venv/demo.stamp  ## install, then rank real convolutions for real GPUs and validate; no GPU needed
	$(BIN)/python examples/demo.py

test: .venv/dev.stamp lint docs  ## install, then run every check
	$(BIN)/python -m pytest -n 2 --dist worksteal --doctest-modules $(PACKAGES) tests $(PYTEST_ARGS)

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PACKAGES)
	$(BIN)/lint-imports

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

.venv/demo.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[compile,figures]'
	touch $@

.venv/dev.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ .venv/demo.stamp

clean:
	rm -rf .venv build dist out
