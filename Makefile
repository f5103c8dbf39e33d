# Holdfast. `make` alone prints the targets; each is described by its `##` comment.

SHELL       := bash
.SHELLFLAGS := -o pipefail -euc
.DEFAULT_GOAL := help

GO            ?= go
BENCH         ?= .
BENCHTIME     ?= 200ms
FUZZTIME      ?= 10s
KILLS         ?= 500
CHAOS         ?= 5m
TIMEOUT       ?= 30m
LINT_VERSION  := 2.14.0

# The race detector needs cgo and a C compiler. Empty where there is none.
CC_FOUND = $(shell [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v $$($(GO) env CC | cut -d' ' -f1))
# SQLite is C made into Go: watching every byte it touches finds nothing of ours
# and makes the suite five times slower. All other code is watched.
RACE     = $(if $(CC_FOUND),-race -gcflags='modernc.org/...=-race=false')
# Tests whose work is done by many child processes take ten times as long when
# those are watched: processes killed at every moment, and the stories of the
# command, also against a server, which start hundreds. Those that read thousands of
# old or damaged databases have nothing to race with. They run without; other tests
# watch the same code.
UNWATCHED    = ^(TestCrash_|TestStories|TestCorpus_|TestRead_.*BitFlip)
UNWATCHED_IN = $(shell grep -rlE --include='*_test.go' '^func $(UNWATCHED:^%=%)' . | xargs -n1 dirname | sort -u)
# golangci-lint of exactly the pinned version: from the path, else from ./bin.
LINT     = $(shell for l in golangci-lint bin/golangci-lint; do \
             command -v $$l >/dev/null && $$l version 2>/dev/null | grep -q "version v\?$(LINT_VERSION) " && { echo $$l; break; }; done)
# The folders of all modules: this one, and nested ones for what only measures or
# compares, whose dependencies a user of the library need not download. Those of
# clients/ are large and belong to clients-test.
MODULES  = $(shell find . -name go.mod -not -path '*/.*/*' -not -path './clients/*' -not -path '*/testdata/*' -exec dirname {} \; | sort)
# Runs the command $(1) in every module, all of them even where one fails.
each     = failed=; for module in $(MODULES); do (cd $$module && $(1)) || failed=1; done; [ -z "$$failed" ]
# A fingerprint of every file, to see whether generating changed one.
FILES    = find . -type f -not -path './.git/*' -not -path './bin/*' -not -path './dist/*' -not -path './web/node_modules/*' -not -path './clients/node_modules/*' -print0 | sort -z | xargs -0 cksum

.PHONY: help
help: ## print this help
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nVariables: BENCH=%s BENCHTIME=%s FUZZTIME=%s KILLS=%s CHAOS=%s\n' '$(BENCH)' '$(BENCHTIME)' '$(FUZZTIME)' '$(KILLS)' '$(CHAOS)'

.PHONY: build
build: ## compile everything; the holdfast command goes to bin/
	$(GO) build ./...
	@if [ -d cmd/holdfast ]; then set -x; CGO_ENABLED=0 $(GO) build -trimpath -o bin/holdfast ./cmd/holdfast; fi

.PHONY: test
test: ## run all tests; needs nothing but Go (with -race where a C compiler is found); with CI=true a skipped suite fails
	@[ -n "$(CC_FOUND)" ] || echo "no C compiler found: testing without the race detector"
	{ $(call each,$(GO) test $(RACE) $(if $(RACE),-skip '$(UNWATCHED)') -timeout $(TIMEOUT) -json ./...); $(if $(RACE),$(GO) test -run '$(UNWATCHED)' -timeout $(TIMEOUT) -json $(UNWATCHED_IN);) } | $(GO) run ./internal/mustrun -suites .ci/suites

.PHONY: check
check: style race ## everything a change must pass

.PHONY: style
style: fmt vet lint tidy generate ## what is checked without running a test: the five targets below

.PHONY: fmt
fmt: ## fail where gofmt would change a file
	@diff=$$(gofmt -d . 2>&1) || true; if [ -n "$$diff" ]; then echo "$$diff"; echo "gofmt would change the above"; exit 1; fi

.PHONY: vet
vet: ## go vet
	$(call each,$(GO) vet ./...)

.PHONY: lint
lint: ## golangci-lint, installed into bin/ when the pinned version is missing
	@if [ -z "$(LINT)" ]; then set -x; \
		GOBIN="$(CURDIR)/bin" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(LINT_VERSION); fi
	lint=$$(realpath "$$(command -v $(or $(LINT),bin/golangci-lint))"); $(call each,$$lint run ./...)

.PHONY: tidy
tidy: ## fail where go mod tidy would change go.mod or go.sum
	$(call each,$(GO) mod tidy -diff)

.PHONY: generate
generate: ## fail where go generate changes a file
	@before=$$($(FILES)); $(call each,$(GO) generate ./...); \
		diff <(echo "$$before") <($(FILES)) || { echo "go generate changed the files above: commit them"; exit 1; }

.PHONY: race
race: ## as make test, but fail where the race detector cannot be had
	@if [ -z "$(CC_FOUND)" ]; then echo "make race needs a C compiler (CGO_ENABLED=1)"; exit 1; fi
	@$(MAKE) --no-print-directory test

.PHONY: bench
bench: ## all benchmarks, briefly; BENCH=Append BENCHTIME=2s for more
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime '$(BENCHTIME)' ./...

.PHONY: bench-recall
bench-recall: ## what recall finds in six languages, into docs/performance.md; takes a minute
	HOLDFAST_BENCH_RECALL=1 $(GO) test -count=1 -run TestRecall_writesThePage ./internal/benchrecall

.PHONY: bench-longmemeval
bench-longmemeval: ## what recall finds in a data set in the format of LongMemEval: DATA=FILE
	HOLDFAST_LONGMEMEVAL="$(abspath $(or $(DATA),internal/benchrecall/testdata/longmemeval.json))" $(GO) test -count=1 -v -timeout 24h -run TestLongMemEval_ofAFile ./internal/benchrecall

.PHONY: bench-stores
bench-stores: ## the durable stores against their targets, into docs/performance.md and docs/stores.svg; takes minutes
	cd internal/benchstores && $(GO) run . -write

.PHONY: bench-peers
bench-peers: ## Holdfast beside other libraries, into docs/performance.md and README.md; takes minutes; QUICK=1 only shows that it works
	cd bench && CGO_ENABLED=0 $(GO) run -tags peers . $(if $(QUICK),-quick,-write)

.PHONY: soak
soak: ## the store suites and the crash tests again and longer: KILLS random kills of a child process per durable store, and one at every write point
	@pkgs=$$($(GO) list -f '{{$$p := .ImportPath}}{{range .XTestImports}}{{if eq . "github.com/holdfast-dev/holdfast/store/storetest"}}{{$$p}} {{end}}{{end}}' ./store/...); \
		if [ -z "$$pkgs" ]; then echo "no package runs the store suite"; exit 1; fi; \
		set -x; HOLDFAST_TEST_CASES=100 $(GO) test $(RACE) -count=1 -timeout 60m $$pkgs -args -storetest.kills=$(KILLS)
	HOLDFAST_TEST_CASES=1000 $(GO) test $(RACE) -count=1 -timeout 60m ./session
	$(MAKE) --no-print-directory crash

.PHONY: crash
crash: ## turns killed at every moment and at KILLS random ones per durable store, with the counts in docs/durability.md
	$(GO) test $(RACE) -count=1 -timeout 60m -v -run '^TestCrash' . -args -crash.kills=$(KILLS)

.PHONY: crash-workflows
crash-workflows: ## workflow runs killed at every moment on every durable store, with the matrix in docs/durability.md; takes minutes
	$(GO) test -count=1 -timeout 120m -v -run '^TestCrash_' ./workflow -args -crash.whole

.PHONY: crash-tasks
crash-tasks: ## tasks killed at every write point of SQLite and at every other moment; takes minutes
	$(GO) test -count=1 -timeout 60m -v -run '^TestCrash_' ./task -args -crash.whole

.PHONY: chaos
chaos: ## chats, tasks and runs in several processes while databases, connections and processes fail at random for CHAOS, with the table in docs/durability.md
	$(GO) test -count=1 -timeout 24h -v ./internal/chaostest -args -chaos.for=$(CHAOS)

.PHONY: streams
streams: ## 10,000 event streams of one server at once: each gets every change, nothing of them stays
	HOLDFAST_STREAMS=10000 $(GO) test -count=1 -timeout 30m -v -run TestHostile_manyStreams ./server

.PHONY: web
web: web/node_modules ## build the page from web/ into internal/web/dist, which is committed
	cd web && npm run -s types && npm run -s build

.PHONY: web-check
web-check: web/node_modules ## fail where the page in internal/web/dist is not what web/ is built to, byte for byte
	cd web && npm run -s types && npm run -s check
	@before=$$(find internal/web/dist -type f -exec cksum {} + | sort); (cd web && npm run -s build); \
		diff <(echo "$$before") <(find internal/web/dist -type f -exec cksum {} + | sort) || { echo "building the page changed the files above: commit them"; exit 1; }

.PHONY: web-test
web-test: web/node_modules ## the page in a browser (Chromium; CHROMIUM names another) against the real program, on SQLite and PostgreSQL
	cd web && npx playwright test

.PHONY: clients-test
clients-test: clients/node_modules ## the protocols of other programs, with the vendors' own clients against the real program
	cd clients/openaigo && $(GO) mod tidy -diff
	cd clients && npm -s test

clients/node_modules: clients/package-lock.json
	cd clients && npm ci --no-audit --no-fund
	@touch clients/node_modules

web/node_modules: web/package-lock.json
	cd web && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-audit --no-fund
	@touch web/node_modules

.PHONY: release
release: ## the archives of a release for all systems, with man pages, completions, SBOM and checksums, into dist/; takes minutes
	$(GO) run ./internal/release -out dist

.PHONY: cross
cross: ## compile the command for every system of a release; takes minutes
	@for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do \
		(set -x; CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -o /dev/null ./cmd/holdfast); \
	done

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME
	@for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			(set -x; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime '$(FUZZTIME)' $$pkg); \
		done; \
	done

.PHONY: cover
cover: ## coverage of all packages by all tests, to cover.out
	$(GO) test -coverpkg=./... -coverprofile=cover.out ./...
	@$(GO) tool cover -func=cover.out | tail -1

.PHONY: clean
clean: ## remove what the targets above leave behind
	rm -rf bin dist cover.out
