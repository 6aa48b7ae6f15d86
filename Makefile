.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

# Debian packages, each with the program or file that shows that it is there: what tests need, and what images need.
IMAGE_PACKAGES := buildah:buildah gcc:gcc gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc libc6-dev-arm64-cross:/usr/aarch64-linux-gnu/include/stdlib.h
PACKAGES := prometheus-pushgateway:prometheus-pushgateway prometheus:promtool prometheus-alertmanager:prometheus-alertmanager \
  faketime:faketime curl:curl jq:jq skopeo:skopeo docker-registry:docker-registry chromium:chromium chromium-driver:chromedriver $(IMAGE_PACKAGES)

# Installs those of a list that are missing.
define install
missing=(); \
for pair in $(1); do \
  shown=$${pair#*:}; \
  command -v "$$shown" >/dev/null || [[ -f $$shown ]] || missing+=("$${pair%%:*}"); \
done; \
if (( $${#missing[@]} )); then \
  echo "tools: installing $${missing[*]}"; \
  install() { DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "$$@" >/dev/null; }; \
  install "$${missing[@]}" 2>/dev/null || { apt-get update --quiet >/dev/null; install "$${missing[@]}"; }; \
fi
endef

BUILT := $(or $(CARGO_TARGET_DIR),target)/debug

CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := target/tools/bin/cargo-deny
CARGO_CYCLONEDX_VERSION := 0.5.9
CARGO_CYCLONEDX := target/tools/bin/cargo-cyclonedx
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

.PHONY: help
help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: tools ## Build what is missing and run everything: lints, tests, tests on a real control plane
	@tests/tools/test

.PHONY: demo
demo: ## Watch real Karpenter replace simulated Nodes, for about three minutes
	@echo "demo: building the control plane's programs; some minutes the first time, needs Go"
	@tests/tools/build
	@echo "demo: building noderotation"
	@cargo build --workspace --bins
	@$(BUILT)/demo $(BUILT)/noderotation

.PHONY: bench
bench: ## Measure passes over 100 NodeClaims and a plan over 1,000, beside clients that only list; how deciding grows; simulated months
	@tests/tools/build
	@cargo bench --workspace --bench cost -- --sizes 100
	@cargo bench --workspace --bench growth --bench plan --bench world

.PHONY: bench-cluster
bench-cluster: ## Measure passes over 100, 1,000 and 5,000 NodeClaims with 50,000 Pods, plan and simulate, and draw the curves
	@tests/tools/build
	@cargo bench --workspace --bench cost -- --svg docs/cost.svg
	@cargo bench --workspace --bench plan -- --svg docs/plan.svg
	@cargo bench --workspace --bench world -- --svg docs/simulate.svg

.PHONY: soak
soak: ## Play SEEDS=2000 embedded worlds with faults and operators; SEED=N repeats one of them, with its log
	@NODEROTATION_SEEDS=$(or $(SEEDS),2000) NODEROTATION_SEED=$(SEED) cargo test --workspace --test world soak -- --nocapture

.PHONY: fuzz
fuzz: ## Put broken objects (COUNT=1000000 of them, from SEED=1 on) through whole passes; judge every write
	@NODEROTATION_FUZZ_SEED=$(or $(SEED),1) NODEROTATION_FUZZ_COUNT=$(or $(COUNT),1000000) \
	  NODEROTATION_FUZZ_THREADS=$(or $(THREADS),$(shell nproc)) RUST_LOG=off \
	  cargo test --quiet --workspace --profile fuzz --lib fuzz:: -- --nocapture

.PHONY: kill
kill: ## Kill passes on a real control plane at KILLS=500 random moments; every invariant must hold
	@tests/tools/build
	@NODEROTATION_KILLS=$(or $(KILLS),500) NODEROTATION_KILL_SEED=$(or $(SEED),9) \
	  cargo test --quiet --workspace --features faults --test cluster kill:: -- --nocapture

.PHONY: cluster
cluster: ## Start a real control plane with a demo pool, until Ctrl-C
	@tests/tools/build
	@cargo build --workspace --bins
	@$(BUILT)/cluster

.PHONY: tools
tools: ## Build the control plane's programs and install the Debian packages that tests need
	@tests/tools/build
	@$(call install,$(PACKAGES))

.PHONY: image
image: ## Build the static program for amd64 and arm64, and an image of each
	@$(call install,$(IMAGE_PACKAGES))
	@.ci/image

.PHONY: sbom
sbom: $(CARGO_CYCLONEDX) ## List every crate in the program that `make image` built, as CycloneDX
	@$(call install,jq:jq)
	@.ci/sbom

.PHONY: lint
lint: licences scripts ## Check format, lints, scripts, the release workflow, licences and dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings

.PHONY: scripts
scripts:
	@$(call install,shellcheck:shellcheck)
	shellcheck .ci/* $$(grep --files-with-matches '^#!.*bash' tests/tools/*)
	go run $(ACTIONLINT)

.PHONY: licences
licences: $(CARGO_DENY)
	$(CARGO_DENY) check bans licenses sources

.PHONY: advisories
advisories: $(CARGO_DENY) ## Check dependencies against the advisory database (which must be reachable)
	$(CARGO_DENY) check advisories

$(CARGO_DENY):
	cargo install --locked --quiet --no-default-features --root target/tools --version $(CARGO_DENY_VERSION) cargo-deny

$(CARGO_CYCLONEDX):
	cargo install --locked --quiet --root target/tools --version $(CARGO_CYCLONEDX_VERSION) cargo-cyclonedx
