//! A question to the world: what becomes of this fleet under these policies, with noderotation and without? The answer is a
//! [`Forecast`].

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use chrono::TimeDelta;

use super::{
    fleet::{Model, PoolSpec, WorkloadSpec},
    history::{Happening, Said},
    pool::PoolWorld,
    run::{Calendar, Passes, run, together},
};
use crate::{
    api::{
        karpenter::NodePool,
        keys,
        time::{Time, later},
    },
    policy::{
        Policy,
        resolve::{Governance, governance},
    },
    rotation::{scene::Config, totals::Totals},
    schedule::window::{Occurrence, Schedule},
};

pub mod forecast;
pub mod invent;
pub mod objects;
pub mod sum;

use forecast::{Forecast, PoolForecast};

/// A NodePool of the scenario.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The pool, its nodes, and workloads whose Pods are wherever there is room.
    pub spec: PoolSpec,
    /// Workloads whose Pods are on known Nodes.
    pub placed: Vec<Placed>,
    /// What operators have written on NodeClaims and Nodes.
    pub words: Vec<Words>,
}

/// A workload and its Pods.
#[derive(Debug, Clone)]
pub struct Placed {
    /// The workload, of as many replicas.
    pub workload: WorkloadSpec,
    /// Its Pods.
    pub pods: Vec<PlacedPod>,
}

/// A Pod on a known Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedPod {
    /// The Node.
    pub node: String,
    /// The value of its `karpenter.sh/do-not-disrupt`. What stands on all Pods of a workload is taken for its template's: then
    /// those that come after them have it, too.
    pub do_not_disrupt: Option<String>,
    /// When its kubelet took it; `None` for the beginning.
    pub since: Option<Time>,
}

/// What an operator has written on one NodeClaim and its Node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Words {
    /// The NodeClaim.
    pub claim: String,
    /// Annotations of the NodeClaim.
    pub on_claim: BTreeMap<String, String>,
    /// Annotations of the Node.
    pub on_node: BTreeMap<String, String>,
    /// Whether the Node is cordoned.
    pub cordoned: bool,
    /// Whether the NodeClaim is being deleted.
    pub deleting: bool,
}

/// The whole question.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The fleet.
    pub pools: Vec<Pool>,
    /// The policies, by name.
    pub policies: BTreeMap<String, Policy>,
    /// How long things take, and what goes wrong.
    pub model: Model,
    /// How passes are set up.
    pub config: Config,
    /// When it begins.
    pub from: Time,
    /// When it ends.
    pub until: Time,
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// When no pass runs: `[from, to)`.
    pub outages: Vec<(Time, Time)>,
    /// What had to be assumed, as sentences.
    pub assumed: Vec<String>,
}

/// One pool's history, under passes or without them.
pub struct Played {
    /// What happened.
    pub history: Vec<Happening>,
    /// Conditions that passes met.
    pub said: BTreeMap<&'static str, Said>,
    /// What passes counted.
    pub totals: Totals,
    /// The most Pods that were wanted and not Ready at once.
    pub down: Down,
}

/// The most Pods that were wanted and not Ready at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Down {
    /// Before the first window opened.
    pub before: u32,
    /// Outside of windows, once the first had opened.
    pub outside: u32,
    /// Inside windows.
    pub inside: u32,
}

/// Who governs a pool, and when something may start there.
pub struct Rule<'a> {
    /// Who.
    pub governance: Governance<'a>,
    /// Its schedule, where one policy governs.
    pub schedule: Option<&'a Schedule>,
    /// When starts are allowed: windows without what blackouts take.
    pub open: Arc<Vec<Occurrence>>,
}

/// A part of the work: histories by the number of their pool.
enum Task {
    With(usize),
    Without(usize),
    /// Those of all pools under passes that share a limit.
    Together,
}

impl Played {
    /// What became of a world whose totals were these at the beginning.
    fn of(world: PoolWorld, counted: &Totals) -> Self {
        let after = totals(&world);
        Self {
            totals: Totals {
                success: after.success.saturating_sub(counted.success),
                failure: after.failure.saturating_sub(counted.failure),
                expired: after.expired.saturating_sub(counted.expired),
                fallback: after.fallback.saturating_sub(counted.fallback),
                window_missed: after.window_missed.saturating_sub(counted.window_missed),
                ..Totals::default()
            },
            down: Down { before: world.peak_before, outside: world.peak_outside, inside: world.peak_inside },
            history: world.history,
            said: world.said,
        }
    }
}

impl Scenario {
    /// Plays every pool twice, on all processors, and sums up. The result depends on nothing but the scenario. `ended` is
    /// told after each of the histories, two a pool, how many have ended.
    pub fn play(&self, ended: &(dyn Fn(usize) + Sync)) -> Forecast {
        let schedules = self.schedules();
        let rules: Vec<Rule<'_>> = self.pools.iter().map(|pool| self.rule(&pool.spec.pool, &schedules)).collect();
        let (model, calendar) = (Arc::new(self.model.clone()), Arc::new(Calendar::default()));
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let played: Mutex<BTreeMap<usize, Played>> = Mutex::default();
        let tasks = self.tasks();
        let work = || {
            // What a pass logs is told by the forecast.
            tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), || {
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let passes = self.passes(&calendar);
                    let histories = match *task {
                        Task::With(index) => {
                            vec![(2 * index, self.play_pool(&self.pools[index], &model, &rules[index].open, Some(&passes)))]
                        }
                        Task::Without(index) => {
                            vec![(2 * index + 1, self.play_pool(&self.pools[index], &model, &rules[index].open, None))]
                        }
                        Task::Together => self.play_together(&model, &rules, &passes),
                    };
                    let count = histories.len();
                    played.lock().unwrap_or_else(PoisonError::into_inner).extend(histories);
                    ended(done.fetch_add(count, Ordering::Relaxed) + count);
                }
            });
        };
        let workers = thread::available_parallelism().map_or(1, usize::from).min(self.pools.len() * 2);
        thread::scope(|scope| {
            for _ in 1..workers {
                scope.spawn(work);
            }
            work();
        });
        let mut played = played.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut forecasts = Vec::new();
        for (index, (pool, rule)) in self.pools.iter().zip(&rules).enumerate() {
            let (Some(with), Some(without)) = (played.remove(&(2 * index)), played.remove(&(2 * index + 1))) else { continue };
            forecasts.push(PoolForecast::of(self, pool, rule, with, without));
        }
        Forecast::of(self, forecasts)
    }

    /// How many rotations may be in flight in the cluster, where that limits anything: a pool has one at most.
    pub fn limit(&self) -> Option<usize> {
        self.config.max_in_flight.filter(|max| *max < self.pools.len())
    }

    /// Pools that share no limit are played side by side.
    fn tasks(&self) -> Vec<Task> {
        let all = 0..self.pools.len();
        match self.limit() {
            None => all.flat_map(|index| [Task::With(index), Task::Without(index)]).collect(),
            Some(_) => [Task::Together].into_iter().chain(all.map(Task::Without)).collect(),
        }
    }

    fn passes(&self, calendar: &Arc<Calendar>) -> Passes {
        Passes { config: self.config.clone(), jump: true, outages: self.outages.clone(), calendar: Arc::clone(calendar) }
    }

    fn play_pool(&self, pool: &Pool, model: &Arc<Model>, open: &Arc<Vec<Occurrence>>, passes: Option<&Passes>) -> Played {
        let world = self.world(pool, model, open);
        let counted = totals(&world.borrow());
        // Nothing starts before the first opening, so a pass begins anew there without a difference.
        if let Some(first) = open.first().map(|first| first.start).filter(|first| *first > self.from) {
            run(&world, passes, later(first, -TimeDelta::seconds(1)));
            world.borrow_mut().advance(first);
        }
        run(&world, passes, self.until);
        Played::of(world.into_inner(), &counted)
    }

    /// Plays all pools under the passes that they share; each history comes with its number.
    fn play_together(&self, model: &Arc<Model>, rules: &[Rule<'_>], passes: &Passes) -> Vec<(usize, Played)> {
        let worlds: Vec<_> = self.pools.iter().zip(rules).map(|(pool, rule)| self.world(pool, model, &rule.open)).collect();
        let counted: Vec<Totals> = worlds.iter().map(|world| totals(&world.borrow())).collect();
        together::run(&worlds, passes, self.until);
        let played = worlds.into_iter().zip(counted).map(|(world, counted)| Played::of(world.into_inner(), &counted));
        played.enumerate().map(|(index, played)| (2 * index, played)).collect()
    }

    fn world(&self, pool: &Pool, model: &Arc<Model>, open: &Arc<Vec<Occurrence>>) -> RefCell<PoolWorld> {
        let world = PoolWorld::new(pool.spec.clone(), &self.policies, Arc::clone(model), self.seed, self.from);
        let mut world = world.under(Arc::clone(open));
        world.take_over(pool);
        RefCell::new(world)
    }

    /// What each policy's windows and blackouts mean around the beginning.
    pub fn schedules(&self) -> BTreeMap<String, Schedule> {
        self.policies.values().map(|policy| (policy.name.clone(), Schedule::under(&policy.settings, self.from))).collect()
    }

    /// Who governs this pool.
    pub fn rule<'a>(&'a self, pool: &NodePool, schedules: &'a BTreeMap<String, Schedule>) -> Rule<'a> {
        let governance = governance(&self.policies, &pool.metadata.labels);
        let schedule = match &governance {
            Governance::Policy(policy) => schedules.get(&policy.name),
            Governance::Ungoverned | Governance::Conflict(_) => None,
        };
        let known = schedule.into_iter().flat_map(|schedule| &schedule.occurrences);
        let known = known.filter(|occurrence| occurrence.end > self.from && occurrence.start < self.until);
        let open = known.flat_map(|occurrence| schedule.map(|schedule| schedule.blackouts.left_of(*occurrence)).unwrap_or_default());
        let open = open.filter(|left| left.end > self.from && left.start < self.until).collect();
        Rule { governance, schedule, open: Arc::new(open) }
    }
}

fn totals(world: &PoolWorld) -> Totals {
    world.view.pools.get(&world.name).and_then(|pool| Totals::of(&pool.metadata).ok()).unwrap_or_default()
}

impl PoolWorld {
    /// What the scenario says beyond the spec.
    fn take_over(&mut self, pool: &Pool) {
        for placed in &pool.placed {
            let nodes: Vec<String> = placed.pods.iter().map(|pod| pod.node.clone()).collect();
            self.add_workload_on(placed.workload.clone(), &nodes);
            self.protect_last_workload(&placed.pods);
        }
        for words in &pool.words {
            self.memory.changed(&words.claim);
            let node = self.view.claims.get_mut(&words.claim).and_then(|claim| {
                claim.metadata.annotations.extend(words.on_claim.clone());
                claim.node().map(str::to_owned)
            });
            if let Some(node) = node {
                self.with_node(&node, |node| {
                    node.metadata.annotations.extend(words.on_node.clone());
                    node.spec.unschedulable = words.cordoned;
                });
            }
            if words.deleting
                && let Some(id) = self.host_of.get(&words.claim).copied()
            {
                self.delete(id);
            }
        }
        self.history.clear();
    }
}

/// Whether an annotation is a pass's own, which a new beginning does without.
pub fn is_ours(key: &str) -> bool {
    key.starts_with("noderotation.io/") && ![keys::FREEZE, keys::ROTATE_REQUESTED].contains(&key)
}

#[cfg(test)]
mod tests;
