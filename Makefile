# The few verbs of the project. `make run` shows the product, `make test` proves it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
CARGO_DENY := 0.20.2

.PHONY: run test e2e browser soak shots lint bench peers facts fuzz console dist

run: toolchain dist ## the product: the console on http://127.0.0.1:8088 with three simulated clusters, data in ~/.muster
	cargo run --release -p muster -- up --demo

test: lint peers console ## everything CI runs
	cargo build -p muster
	cargo test --workspace --no-fail-fast 2>&1 | tee target/test.log
	@awk '/^test result:/ {for (i = 2; i <= NF; i++) if ($$i ~ /^passed/) n += $$(i-1)} END {print n " passed, 0 failed"}' target/test.log

e2e: toolchain dist ## real clusters as members of one `muster up`, one of them with a real kubelet; its peers take minutes to build, once
	tests/peers/ensure kube-apiserver kubectl etcd kube-controller-manager kube-scheduler kwok kubelet node helm3 helm4 >/dev/null
	cargo build -p muster
	MUSTER_E2E=1 cargo test --workspace --test real

browser: toolchain dist ## the console in a real browser, on a demo of its own; pictures of what failed in console/test-results
	cargo build -p muster
	cd console && CHROMIUM=$$(../tests/peers/chromium) npm run --silent e2e

soak: toolchain dist ## tabs left open for MINUTES=60 while the fleet changes all the time: what they and the server hold
	cargo build --release -p muster
	cd console && CHROMIUM=$$(../tests/peers/chromium) MUSTER_BIN=$(CURDIR)/target/release/muster MUSTER_SOAK=$${MINUTES:-60} npm run --silent e2e -- --project=soak

shots: toolchain dist ## takes the pictures of the user guide anew
	cargo build -p muster
	rm -rf console/shots/guide
	cd console && CHROMIUM=$$(../tests/peers/chromium) MUSTER_SHOTS=1 npm run --silent e2e -- --project=shots
	mkdir -p docs/images && cp console/shots/guide/*.png docs/images/
	@large=$$(find docs/images -size +120k); [ -z "$$large" ] || { echo "larger than 120 kB: $$large"; exit 1; }

lint: toolchain
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	command -v cargo-deny >/dev/null || cargo install --locked --quiet cargo-deny@$(CARGO_DENY)
	cargo fetch --locked --quiet
	cargo deny --offline check bans licenses sources

dist: ## the web console as the binary embeds it, console/dist
	@node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' \
	  || { echo "the console needs Node 20.19 or newer"; exit 1; }
	@# `npm ci` wants every platform's optional packages to be in the lock; a registry that lacks some of them cannot have written it so.
	cd console && { cmp -s package-lock.json node_modules/.muster-lock || { npm install --no-save && cp package-lock.json node_modules/.muster-lock; }; }
	cd console && npm run --silent build

console: dist ## its checks and unit tests
	cd console && npm run --silent check && npm run --silent test

bench: peers dist ## against kube-apiserver + etcd, both sides in one run; FLAGS=--quick for a short one
	cargo build --release -p muster -p muster-bench -p muster-bench-reconciles -p muster-bench-fleet
	MUSTER_BIN=target/release/muster target/release/muster-bench $(FLAGS)
	MUSTER_BIN=target/release/muster target/release/muster-bench-reconciles $(FLAGS)
	MUSTER_BIN=target/release/muster target/release/muster-bench-fleet $(FLAGS)
	cd console && CHROMIUM=$$(../tests/peers/chromium) MUSTER_BIN=$(CURDIR)/target/release/muster MUSTER_BIG=only npm run --silent e2e -- --project=big

peers: ## the real kube-apiserver, etcd and kubectl, built once into a cache outside the tree; Redis, zsh and fish from Debian
	tests/peers/ensure kube-apiserver kubectl etcd etcdctl helm3 helm4 redis-server redis-cli zsh fish >/dev/null

facts: ## rewrite the table of the built-in kinds from the Go modules of Kubernetes
	cd tools/facts && go run .

fuzz: ## a longer run of the fuzz targets than the one in `make test`
	MUSTER_FUZZ_INPUTS=2000000 cargo test --release -p muster-fuzz

.PHONY: toolchain
toolchain:
	@command -v cargo >/dev/null || { echo "muster needs Rust 1.95 or newer (rustup)"; exit 1; }
	@command -v cc >/dev/null || { apt-get update -qq && apt-get install -y -qq build-essential; }
	@command -v cmake >/dev/null || { apt-get update -qq && apt-get install -y -qq cmake; } # aws-lc on some platforms
