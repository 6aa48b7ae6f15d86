//! From the View to the steps: the sweep, then one step per NodePool. Pure; the order of the rules stands in [`step`].

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use super::{
    advance, assess, complete, fallback, governance,
    memory::{Memory, Pool},
    scene::{ByPool, Config, Scene},
    start,
    step::{Action, Assessment, Gate, Planned, Step},
    sweep::sweep,
    windows,
};
use crate::{
    api::{keys, time::Time},
    candidates::{Candidate, urgency},
    policy::{
        Policy,
        resolve::{Governance, Resolver},
    },
    schedule::window::Schedule,
    view::{Missing, Need, View},
};

/// What a pass does.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The sweep's writes, each on its own.
    pub sweep: Vec<Planned>,
    /// One step per NodePool.
    pub steps: BTreeMap<String, Step>,
    /// Why a pool has no step: an object of it, or a fact it needs, could not be read.
    pub errors: BTreeMap<String, String>,
}

/// What the windows of every policy mean, by its name: worked out once for all pools and rounds of a pass.
pub type Schedules = BTreeMap<String, Arc<Schedule>>;

/// The schedules of the View's policies around `now`.
pub fn schedules(view: &View, now: Time) -> Schedules {
    view.policies.values().map(|policy| (policy.name.clone(), Arc::new(Schedule::under(&policy.settings, now)))).collect()
}

/// The facts that the steps still want. Reading them and asking again ends after at most [`ROUNDS`] rounds.
pub fn needs(view: &View, now: Time, config: &Config) -> BTreeSet<Need> {
    wanted(view, &results(view, now, config, &schedules(view, now), &mut Memory::default()).1)
}

/// How many rounds of [`needs`] a pass reads.
pub const ROUNDS: usize = 5;

/// Decides the whole pass.
pub fn decide(view: &View, now: Time, config: &Config) -> Decision {
    decision(view, config, results(view, now, config, &schedules(view, now), &mut Memory::default()))
}

/// Decides the whole pass, or says what else there is to read first. `memory` is that of the decisions before on this View.
///
/// # Errors
/// The facts that the steps still want, as [`needs`].
pub fn decide_or_ask(
    view: &View,
    now: Time,
    config: &Config,
    schedules: &Schedules,
    memory: &mut Memory,
) -> Result<Decision, BTreeSet<Need>> {
    let results = results(view, now, config, schedules, memory);
    let wanted = wanted(view, &results.1);
    if wanted.is_empty() { Ok(decision(view, config, results)) } else { Err(wanted) }
}

type Results = (Vec<Planned>, BTreeMap<String, Result<Step, Undecided>>);

fn wanted(view: &View, results: &BTreeMap<String, Result<Step, Undecided>>) -> BTreeSet<Need> {
    let missing = results.values().filter_map(|result| match result {
        Err(Undecided::Missing(Missing(needs))) => Some(needs),
        Ok(_) | Err(Undecided::Panicked(_)) => None,
    });
    missing.flatten().filter(|need| !view.facts.failed.contains_key(need)).cloned().collect()
}

fn decision(view: &View, config: &Config, (sweep, results): Results) -> Decision {
    let mut decision = Decision { sweep, steps: BTreeMap::new(), errors: BTreeMap::new() };
    for (pool, result) in results {
        match result {
            Ok(step) => {
                decision.steps.insert(pool, step);
            }
            Err(Undecided::Missing(missing)) => {
                decision.errors.insert(pool, unanswered(view, &missing));
            }
            Err(Undecided::Panicked(words)) => {
                decision.errors.insert(pool, format!("a bug in this program, please report it: {words}"));
            }
        }
    }
    grant(&mut decision.steps, in_flight(view), config);
    for unreadable in view.unreadable.iter().filter(|unreadable| unreadable.kind == "NodePool") {
        decision.errors.insert(unreadable.name.clone(), format!("NodePool {}: {}", unreadable.name, unreadable.why));
    }
    decision
}

/// Why a pool has no step.
enum Undecided {
    Missing(Missing),
    Panicked(String),
}

/// One pool's bug must not stop the others.
fn guarded(decide: impl FnOnce() -> Result<Step, Missing>) -> Result<Step, Undecided> {
    match std::panic::catch_unwind(AssertUnwindSafe(decide)) {
        Ok(result) => result.map_err(Undecided::Missing),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Err(Undecided::Panicked(words.unwrap_or("no words").to_owned()))
        }
    }
}

fn unanswered(view: &View, missing: &Missing) -> String {
    let why = |need: &Need| {
        view.facts.failed.get(need).map_or_else(|| format!("{need}: not read in {ROUNDS} rounds"), |why| format!("{need}: {why}"))
    };
    missing.0.iter().map(why).collect::<Vec<_>>().join("; ")
}

/// Starts that are granted in this pass, by urgency; the others wait for a later one. Who decides pools one by one grants
/// once more, over the steps of all.
pub fn grant(steps: &mut BTreeMap<String, Step>, in_flight: usize, config: &Config) {
    let Some(max) = config.max_in_flight else { return };
    let mut starts: Vec<(String, Candidate)> = steps.iter().filter_map(|(pool, step)| Some((pool.clone(), step.starts.clone()?))).collect();
    starts.sort_by(|(pool_a, a), (pool_b, b)| urgency(a).cmp(&urgency(b)).then_with(|| pool_a.cmp(pool_b)));
    for (pool, candidate) in starts.into_iter().skip(max.saturating_sub(in_flight)) {
        let Some(step) = steps.get_mut(&pool) else { continue };
        let detail =
            format!("{}: more urgent candidates of other pools take the places that are left for {}", at_most(max), candidate.claim);
        let gate = Gate { code: "max-in-flight", detail, until: None };
        let conditions = std::mem::take(&mut step.conditions);
        *step = Step { conditions, ..Step::gated(step.assessment.clone(), gate) };
    }
}

/// The limit, for people.
pub(super) fn at_most(max: usize) -> String {
    format!("at most {max} rotations may be in flight in the cluster (--max-in-flight)")
}

/// Rotations in flight in the cluster.
fn in_flight(view: &View) -> usize {
    let here = view.pools.values().filter(|pool| pool.metadata.annotation(keys::ACTIVE_ROTATION).is_some()).count();
    here + view.in_flight_elsewhere
}

fn results(view: &View, now: Time, config: &Config, schedules: &Schedules, memory: &mut Memory) -> Results {
    let (annotated, noted) = memory.annotated(view);
    let (effects, swept) = sweep(view, &annotated, &noted, now);
    let in_flight = in_flight(view);
    let by_pool = ByPool::new(view);
    let resolver = Resolver::of(&view.policies);
    let never = Arc::default();
    let mut results = BTreeMap::new();
    for (name, pool) in &view.pools {
        let governance = resolver.governance(&pool.metadata.labels);
        let policy = used(&governance);
        let schedule = policy.and_then(|policy| schedules.get(&policy.name)).unwrap_or(&never);
        let result = guarded(|| {
            let known = memory.know(&by_pool, &Pool { pool, policy, schedule, cadence: config.cadence, now, swept: &swept.claims });
            let scene = Scene {
                view,
                now,
                config,
                pool,
                by_pool: &by_pool,
                annotated: &annotated,
                totals: known.totals,
                census: known.census,
                template: known.template,
                governance: &governance,
                policy,
                schedule,
                swept: &swept,
                in_flight,
            };
            step(&scene)
        });
        results.insert(name.clone(), result);
    }
    (effects, results)
}

/// The policy whose fields are used: in a tie the first by name, so that what is in flight goes on.
pub(super) fn used<'a>(governance: &Governance<'a>) -> Option<&'a Policy> {
    match governance {
        Governance::Ungoverned => None,
        Governance::Policy(policy) => Some(policy),
        Governance::Conflict(tied) => tied.first().copied(),
    }
}

/// The order of the rules for one pool.
fn step(scene: &Scene<'_>) -> Result<Step, Missing> {
    let assessment = assess::assess(scene)?;
    let foreign = scene.anchor().and_then(|claim| scene.view.claims.get(claim)).filter(|claim| claim.pool() != Some(scene.name()));
    let mut step = match (scene.anchor(), scene.policy) {
        // An anchor on another pool's claim must not undo, finish or count what that pool does with it.
        (Some(_), _) if let Some(foreign) = foreign => advance::orphan(scene, assessment, foreign),
        // A fallback that was started is finished, whatever windows, freezes and policies say since (§7).
        (Some(claim), _) if scene.is_fallback() => fallback::resume(scene, assessment, claim)?,
        // Nobody governs the pool any more: nothing else would ever clean up behind its rotation (§5.4).
        (Some(claim), None) => governance::lost(scene, assessment, claim),
        // What is in flight comes before everything that gates starts.
        (Some(claim), Some(policy)) => advance::advance(scene, policy, assessment, claim)?,
        (None, Some(policy)) => start::start(scene, policy, assessment)?,
        (None, None) => idle(assessment),
    };
    step.conditions.extend(assess::conditions(scene, &step.assessment));
    step.aside.extend(scene.policy.and_then(|policy| windows::settlement(scene, policy, &step.assessment)));
    Ok(step)
}

fn idle(assessment: Box<Assessment>) -> Step {
    Step::of(assessment, Action { code: "ungoverned", detail: "no RotationPolicy matches this pool".into() })
}

/// What completion, fallback and advance share: the anchor names a claim that is gone.
pub(super) fn gone(scene: &Scene<'_>, assessment: Box<Assessment>, claim: &str) -> Result<Step, Missing> {
    let unreadable = scene.view.unreadable.iter().find(|unreadable| unreadable.kind == "NodeClaim" && unreadable.name == claim);
    if let Some(unreadable) = unreadable {
        let mut step = Step::of(assessment, Action { code: "hold", detail: format!("NodeClaim {claim} can't be read") });
        step.error = Some(format!("NodeClaim {claim}: {}", unreadable.why));
        return Ok(step);
    }
    Ok(complete::complete(scene, assessment, claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_its_pool_with_its_words() {
        let words = |result| match result {
            Err(Undecided::Panicked(words)) => words,
            _ => panic!("it is told as a panic"),
        };
        assert_eq!(words(guarded(|| panic!("it is broken"))), "it is broken");
        let number = 7;
        assert_eq!(words(guarded(|| panic!("it is broken {number} times"))), "it is broken 7 times");
    }
}
