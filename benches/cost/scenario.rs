//! The course of the benchmark: one cluster that grows, and at each size passes in three moods, each pass beside a raw list.

use std::process::ExitCode;

use crate::{
    Flags, curves,
    fleet::{Fleet, Mood},
    process::{Cost, cost},
    report,
    requests::{Mark, Request},
    wire::{Traffic, Wire},
};

/// What was measured of one mood at one size.
#[derive(Debug)]
pub struct Seen {
    /// What the policy says.
    pub mood: Mood,
    /// NodeClaims.
    pub claims: usize,
    /// Pods.
    pub pods: usize,
    /// A pass.
    pub pass: Cost,
    /// The raw lists, run by run beside it.
    pub raw: Cost,
    /// What a pass asked.
    pub requests: Vec<Request>,
    /// What it moved.
    pub traffic: Traffic,
    /// What the raw lists asked.
    pub raw_requests: usize,
    /// What they moved.
    pub raw_traffic: Traffic,
}

struct Stage {
    fleet: Fleet,
    kubeconfig: String,
    wire: Wire,
    page: String,
    runs: usize,
}

/// Measures everything, prints it, and draws the curves.
#[tokio::main]
pub async fn bench(flags: &Flags) -> ExitCode {
    println!("bench: starting a control plane");
    let fleet = Fleet::start().await;
    let kubeconfig = fleet.plane.kubeconfig_for("node-rotation-system", "noderotation").await.unwrap();
    let wire = Wire::before(&kubeconfig).await;
    let page = noderotation::kube::PAGE.to_string();
    let mut stage = Stage { fleet, kubeconfig: kubeconfig.display().to_string(), wire, page, runs: flags.runs };
    let mut seen = Vec::new();
    for &claims in &flags.sizes {
        let begun = std::time::Instant::now();
        stage.fleet.grow(claims).await;
        stage.fleet.fill(claims * flags.pods).await;
        println!("bench: {}; filled in {:.0?}", stage.fleet, begun.elapsed());
        if claims == flags.sizes[0] {
            println!("bench: mean sizes in bytes: {:?}", stage.fleet.sizes().await);
        }
        for mood in [Mood::Outside, Mood::Gated, Mood::Rotating] {
            seen.push(stage.measure(mood, claims, claims * flags.pods).await);
            report::print(&seen[seen.len() - 1]);
        }
    }
    stage.fleet.empty().await;
    println!("bench: {}", stage.fleet);
    let without_pods = stage.measure(Mood::Outside, flags.sizes[flags.sizes.len() - 1], 0).await;
    report::print(&without_pods);
    if let Some(file) = &flags.svg {
        std::fs::write(file, curves::curves(&seen)).unwrap();
        println!("bench: the curves are in {file}");
    }
    report::verdict(&seen, &without_pods, env!("CARGO_BIN_EXE_noderotation"))
}

impl Stage {
    async fn measure(&self, mood: Mood, claims: usize, pods: usize) -> Seen {
        self.fleet.turn(mood).await;
        let (mut passes, mut lists) = (Vec::new(), Vec::new());
        // A pass that rotates is not like another before what it has written is gone.
        for _ in 0..=self.runs {
            passes.push(self.pass(&self.kubeconfig));
            self.settle(mood).await;
            lists.push(self.raw(&self.kubeconfig));
        }
        // Counted apart, for counting costs time.
        let counted = self.wire.kubeconfig.display().to_string();
        let log = self.fleet.plane.audit_log();
        let mark = Mark::end(&log);
        self.wire.take();
        self.pass(&counted);
        let (traffic, requests) = (self.wire.take(), mark.since().await);
        self.settle(mood).await;
        let mark = Mark::end(&log);
        self.raw(&counted);
        let (raw_traffic, raw_requests) = (self.wire.take(), mark.since().await.len());
        let (pass, raw) = (Cost::median(&passes[1..]), Cost::median(&lists[1..]));
        Seen { mood, claims, pods, pass, raw, requests, traffic, raw_requests, raw_traffic }
    }

    async fn settle(&self, mood: Mood) {
        if mood == Mood::Rotating {
            self.fleet.reset().await;
        }
    }

    fn pass(&self, kubeconfig: &str) -> Cost {
        cost(&[env!("CARGO_BIN_EXE_noderotation"), "run", "--kubeconfig", kubeconfig])
    }

    fn raw(&self, kubeconfig: &str) -> Cost {
        cost(&[&std::env::current_exe().unwrap().display().to_string(), "list", kubeconfig, &self.page])
    }
}
