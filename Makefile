# make run          install what is missing, build, run the example job (or JOB=path) and check its result
# make test         everything that must pass before a change lands; under 25 minutes on 2 cores
# make check        formatting and lints only
# make drills       faults under a checked load, ROUNDS=300 SEED=1 (MINUTES=, ARGS="WORD"); writes docs/DRILLS.md (root)
# make fuzz       random bytes to all that reads strangers' bytes, SECONDS=60 each (TARGET=frames); see fuzz/
# make docs         build the documentation site into target/site; fails for dead links (mkdocs.yml)
# make bench        measure, print a table, write bench/results.json; about 25 minutes (ARGS="--only names")
# make bench-peers  the same work on us and on GlusterFS (root); writes bench/peers.json
# make build        the programs and libdatawarp, in target/release
# make install      them, the header and the manual pages, below PREFIX=/usr/local (and DESTDIR=, for packages)
# make cluster      a Slurm cluster with Forebay on this machine, NODES=4 nodes (root); says how to use it
# make cluster-down end it and remove every trace of it
# make clean        remove what was built

EXAMPLE := examples/star-catalogue/job.sh
JOB     := $(EXAMPLE)
ARGS    :=
NODES   := 4
ROUNDS  := 300
SEED    := 1
MINUTES :=
SECONDS := 60
TARGET  :=
PREFIX  := /usr/local
DESTDIR :=
CARGO   := cargo
FLAGS   := --release --locked

.PHONY: run build install check test drills fuzz docs bench bench-peers cluster cluster-down clean
.DEFAULT_GOAL := build

build:
	@scripts/install-deps build
	@$(CARGO) build $(FLAGS) --workspace --bins --lib

install: build
	@scripts/install $(PREFIX) $(DESTDIR)

run:
	@scripts/install-deps build run $(if $(filter $(EXAMPLE),$(JOB)),example)
	@$(CARGO) build $(FLAGS) --workspace --bins
	@target/release/forebay run $(ARGS) $(JOB)
	@$(if $(filter $(EXAMPLE),$(JOB)),examples/star-catalogue/check_against_pfs.py results/star-catalogue/stars.h5)

check:
	@scripts/install-deps test
	$(CARGO) fmt --check
	$(CARGO) clippy $(FLAGS) --workspace --all-targets -- -D warnings

test:
	@scripts/install-deps build run example test posix slurm-test fuzz
	@scripts/test

drills:
	@scripts/install-deps build run test drills
	@$(CARGO) build $(FLAGS) --workspace --bins
	@$(CARGO) test $(FLAGS) --workspace --test drills -- --rounds $(ROUNDS) --seed $(SEED) \
		$(if $(MINUTES),--minutes $(MINUTES)) --table $(CURDIR)/docs/DRILLS.md $(ARGS)

fuzz:
	@scripts/install-deps build fuzz
	@scripts/fuzz $(SECONDS) "$(TARGET)" $(ARGS)

docs:
	@scripts/install-deps docs
	@scripts/site/build

bench:
	@scripts/install-deps build run bench slurm
	@$(CARGO) build $(FLAGS) --workspace --bins
	@target/release/bench $(ARGS)

bench-peers:
	@scripts/install-deps build run peers
	@$(CARGO) build $(FLAGS) --workspace --bins
	@target/release/bench --only peers --out bench/peers.json

cluster:
	@scripts/install-deps build run slurm
	@$(CARGO) build $(FLAGS) --workspace --bins
	@scripts/cluster/up $(NODES)

cluster-down:
	@scripts/cluster/down

clean:
	$(CARGO) clean
