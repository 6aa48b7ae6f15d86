//! One pass over any [`Cluster`], in the order of the picture in the crate's page: load, decide, execute, status. What it
//! did comes back as a [`PassReport`]; telling it (metrics, exit code) is the caller's.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};

use crate::{
    api::{keys, meta::Meta, time::Time},
    candidates::soonest,
    cluster::{Cluster, Failure},
    policy::status,
    report::metrics::Stage,
    rotation::{
        decide::{Decision, ROUNDS, decide, decide_or_ask, schedules},
        memory::Memory,
        scene::Config,
        step::{Assessment, Step},
        totals::Totals,
    },
    view::View,
};

mod known;
mod perform;
mod ready;

pub use known::Known;
pub use perform::{Performed, perform, perform_knowing};
pub use ready::{Unready, ready};

/// What one pass did.
#[derive(Debug, Default)]
pub struct PassReport {
    /// What was seen and done, per pool that could be judged.
    pub pools: BTreeMap<String, PoolOutcome>,
    /// Errors per stage.
    pub errors: BTreeMap<Stage, u64>,
    /// What ended the pass early: a lost Lease, the deadline, a signal, or a View that can't be read.
    pub aborted: Option<Failure>,
    /// Whether there was a complete View.
    pub had_view: bool,
    /// The next moment at which a pass could do something by time alone; `None` for never.
    pub wake_at: Option<Time>,
}

/// What became of one pool.
#[derive(Debug)]
pub struct PoolOutcome {
    /// What was seen.
    pub assessment: Assessment,
    /// Its totals after the pass's writes.
    pub totals: Totals,
    /// Whether it failed.
    pub failed: bool,
}

/// A View with all facts that the steps want, and what they are.
pub struct Look {
    /// What is known.
    pub view: View,
    /// What it comes to.
    pub decision: Decision,
    /// When that was decided.
    pub now: Time,
}

/// Reads the View and all facts that the steps want, and decides.
///
/// # Errors
/// [`Failure`] when a list can't be read.
pub async fn look(cluster: &impl Cluster, config: &Config) -> Result<Look, Failure> {
    let mut view = cluster.load().await?;
    let schedules = schedules(&view, cluster.now());
    let mut memory = Memory::default();
    for _ in 0..ROUNDS {
        let now = cluster.now();
        match decide_or_ask(&view, now, config, &schedules, &mut memory) {
            Ok(decision) => return Ok(Look { view, decision, now }),
            Err(needs) => cluster.read(&mut view, &needs).await,
        }
    }
    let now = cluster.now();
    let decision = decide(&view, now, config);
    Ok(Look { view, decision, now })
}

/// Reads the View and all facts that the steps want.
///
/// # Errors
/// [`Failure`] when a list can't be read.
pub async fn view(cluster: &impl Cluster, config: &Config) -> Result<View, Failure> {
    look(cluster, config).await.map(|look| look.view)
}

/// Does one pass. `concurrency` pools are worked on side by side.
pub async fn pass(cluster: &impl Cluster, config: &Config, concurrency: usize) -> PassReport {
    let look = look(cluster, config).await;
    pass_over(cluster, concurrency, look).await
}

/// Does the rest of a pass that has looked.
pub async fn pass_over(cluster: &impl Cluster, concurrency: usize, look: Result<Look, Failure>) -> PassReport {
    let mut report = PassReport::default();
    let Look { view, decision, now } = match look {
        Ok(look) => look,
        Err(failure) => {
            tracing::error!(error = %failure, "the cluster can't be read");
            report.count(Stage::Load);
            report.aborted = Some(failure);
            return report;
        }
    };
    report.had_view = true;
    for unreadable in &view.unreadable {
        tracing::error!(kind = unreadable.kind, name = unreadable.name, error = unreadable.why, "an object can't be read");
        report.count(Stage::Load);
    }
    let known = Known::of(&view);
    sweep(cluster, &known, &decision, &mut report).await;
    for (pool, error) in &decision.errors {
        tracing::error!(nodepool = pool, error, "the pool can't be judged");
        report.count(Stage::Decide);
        report.pools.extend(view.pools.get(pool).map(|seen| (pool.clone(), PoolOutcome::unjudged(&seen.metadata))));
    }
    steps(cluster, &known, decision, concurrency, &mut report).await;
    write_status(cluster, &view, now, &mut report).await;
    report
}

/// Each item stands alone: one that fails is logged, and the next pass finds it again.
async fn sweep(cluster: &impl Cluster, known: &Known<'_>, decision: &Decision, report: &mut PassReport) {
    for planned in &decision.sweep {
        if report.aborted.is_some() {
            return;
        }
        let performed = perform_knowing(cluster, known, std::slice::from_ref(planned)).await;
        report.note("", &performed);
    }
}

async fn steps(cluster: &impl Cluster, known: &Known<'_>, decision: Decision, concurrency: usize, report: &mut PassReport) {
    if report.aborted.is_some() {
        return;
    }
    let work = decision.steps.into_iter().map(|(pool, step)| async move {
        let mut performed = Performed::default();
        for planned in &step.aside {
            performed = performed.then(perform_knowing(cluster, known, std::slice::from_ref(planned)).await);
        }
        if performed.aborted.is_none() {
            performed = performed.then(perform_knowing(cluster, known, &step.effects).await);
        }
        if performed.aborted.is_none() {
            let told = performed.conditions.drain(..).chain(step.conditions.iter().map(|notice| (**notice).clone())).collect::<Vec<_>>();
            cluster.tell(&told).await;
        }
        (pool, step, performed)
    });
    let mut done = stream::iter(work).buffer_unordered(concurrency.max(1));
    while let Some((pool, step, performed)) = done.next().await {
        summarize(&pool, &step);
        if let Some(error) = &step.error {
            tracing::error!(nodepool = pool, error, "the pool's step can't be decided");
            report.count(Stage::Decide);
        }
        report.note(&pool, &performed);
        report.wake_at = soonest(report.wake_at, step.wake_at);
        let failed = step.error.is_some() || performed.failed();
        let totals = performed.totals().unwrap_or_else(|| step.assessment.totals.clone());
        let mut assessment = *step.assessment;
        assessment.follow(performed.anchored);
        report.pools.insert(pool, PoolOutcome { assessment, totals, failed });
    }
}

fn summarize(pool: &str, step: &Step) {
    let assessment = &step.assessment;
    if !assessment.governed && assessment.in_flight.is_none() {
        tracing::debug!(nodepool = pool, "no RotationPolicy matches this pool");
        return;
    }
    let census: Vec<String> = assessment.census.iter().map(|(bucket, count)| format!("{} {count}", bucket.as_str())).collect();
    tracing::info!(
        nodepool = pool,
        policy = assessment.policy.as_deref().unwrap_or_default(),
        action = step.action.code,
        census = census.join(", "),
        "{}",
        step.action.detail
    );
}

/// The observational status of every policy, after the steps (§5.4).
async fn write_status(cluster: &impl Cluster, view: &View, now: Time, report: &mut PassReport) {
    for policy in view.policies.values() {
        if report.aborted.is_some() {
            return;
        }
        let governed = report.pools.values().map(|outcome| &outcome.assessment).filter(|seen| seen.conflict.is_empty());
        let governed: Vec<_> = governed.filter(|seen| seen.policy.as_deref() == Some(policy.name.as_str())).collect();
        let rotating = governed.iter().filter(|seen| seen.in_flight.is_some()).count();
        let tied = report.pools.values().filter(|outcome| outcome.assessment.conflict.contains(&policy.name));
        let tied: Vec<String> = tied.map(|outcome| outcome.assessment.pool.clone()).collect();
        let status = status::status(policy, governed.len(), rotating, &tied, now);
        if !status::changed(policy, &status) {
            continue;
        }
        if let Err(failure) = cluster.write_status(&policy.name, &policy.resource_version, &status).await {
            tracing::warn!(policy = policy.name, error = %failure, "the policy's status was not written");
            report.count(Stage::Status);
            report.abort(&failure);
        }
    }
}

impl PoolOutcome {
    fn unjudged(pool: &Meta) -> Self {
        let totals = Totals::of(pool).unwrap_or_default();
        // Only pools that were governed once have totals to tell.
        let governed = pool.annotation(keys::TOTALS).is_some();
        let assessment = Assessment { pool: pool.name.clone(), governed, unjudged: true, ..Assessment::default() };
        Self { assessment, totals, failed: true }
    }
}

impl PassReport {
    /// Whether anything failed that the exit code tells.
    pub fn failed(&self) -> bool {
        self.aborted.is_some() || self.errors.values().any(|count| *count > 0)
    }

    fn count(&mut self, stage: Stage) {
        *self.errors.entry(stage).or_default() += 1;
    }

    fn note(&mut self, pool: &str, performed: &Performed) {
        for error in &performed.errors {
            tracing::error!(nodepool = pool, error, "a write failed");
            self.count(Stage::Execute);
        }
        if let Some(failure) = &performed.aborted {
            self.count(if matches!(failure, Failure::LeaseLost(_)) { Stage::Lease } else { Stage::Execute });
            self.abort(failure);
        }
    }

    /// A failure of one call ends nothing; the others end the pass.
    fn abort(&mut self, failure: &Failure) {
        if !matches!(failure, Failure::Call { .. }) && self.aborted.is_none() {
            tracing::error!(error = %failure, "the pass ends early");
            self.aborted = Some(failure.clone());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
