# make run          install what is missing, build, run the example job (or JOB=path) and check its result
# make test         everything that must pass before a change lands: 25 to 45 minutes on 2 cores, after the build
# make check        formatting and lints only
# make test-slurm   the jobs of Slurm under the one of another Debian, RELEASE=trixie (root, network; ARGS="WORD")
# make drills       faults under a checked load, ROUNDS=300 SEED=1 (MINUTES=, ARGS="WORD"); writes docs/DRILLS.md (root)
# make faults       an error in every call of starts, setup, teardown, discard and compaction, one by one (root; long)
# make attacks      users against users, nodes and control, as docs/run/security.md promises (root; ARGS="WORD")
# make fuzz         random bytes to all that reads strangers' bytes, SECONDS=60 each (TARGET=frames); see fuzz/
# make docs         build the documentation site into target/site; fails for dead links (mkdocs.yml)
# make bench        measure, print a table, write bench/results.json; about 30 minutes (ARGS="--only names")
# make bench-peers  the same work on us and on GlusterFS (root); writes bench/peers.json
# make bench-builds the same work with the programs of another build, OLD=FOLDER; writes bench/builds.json
# make build        the programs and libdatawarp, in target/release
# make sbom         what is linked into them, with licences and checksums, in target/forebay.cdx.json (CycloneDX)
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
RELEASE := trixie
OLD     :=
PREFIX  := /usr/local
DESTDIR :=
CARGO   := cargo
FLAGS   := --release --locked

.PHONY: run build install check test test-slurm drills faults attacks fuzz docs bench bench-peers bench-builds
.PHONY: cluster cluster-down clean sbom
.DEFAULT_GOAL := build

build:
	@scripts/install-deps build
	@$(CARGO) build $(FLAGS) --workspace --bins --lib

sbom:
	@scripts/install-deps build
	@mkdir -p target && scripts/sbom >target/forebay.cdx.json

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
	@scripts/doc-links

test:
	@scripts/install-deps build run example test posix slurm-test fuzz
	@scripts/test

# Cargo builds the tests here and runs them there.
test-slurm:
	@scripts/install-deps build run
	@$(CARGO) build $(FLAGS) --workspace --bins --lib
	@$(CARGO) test $(FLAGS) --workspace --test slurm \
		--config "target.'cfg(all())'.runner = ['$(CURDIR)/scripts/cluster/release', '$(RELEASE)']" -- $(ARGS)

drills:
	@scripts/install-deps build run test drills
	@$(CARGO) build $(FLAGS) --workspace --bins
	@$(CARGO) test $(FLAGS) --workspace --test drills -- --rounds $(ROUNDS) --seed $(SEED) \
		$(if $(MINUTES),--minutes $(MINUTES)) --table $(CURDIR)/docs/DRILLS.md $(ARGS)

faults:
	@scripts/install-deps build run test
	@$(CARGO) build $(FLAGS) --workspace --bins
	@FOREBAY_FAULTS=all $(CARGO) test $(FLAGS) --workspace --test faults -- $(ARGS)

attacks:
	@scripts/install-deps build run test
	@$(CARGO) build $(FLAGS) --workspace --bins
	@$(CARGO) test $(FLAGS) --workspace --test attacks -- $(ARGS)

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

bench-builds:
	@scripts/install-deps build run bench
	@$(CARGO) build $(FLAGS) --workspace --bins
	@target/release/bench --pairs 7 --old $(OLD) --out bench/builds.json $(ARGS)

cluster:
	@scripts/install-deps build run slurm
	@$(CARGO) build $(FLAGS) --workspace --bins
	@scripts/cluster/up $(NODES)

cluster-down:
	@scripts/cluster/down

clean:
	$(CARGO) clean
