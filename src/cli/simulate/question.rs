//! What is asked: the fleet, the policies, the time and the what-ifs, from all that was typed and read.

use std::{collections::BTreeMap, num::NonZeroUsize};

use chrono::TimeDelta;
use serde_json::json;

use super::{SimulateArgs, files, next_midnight, typed};
use crate::{
    api::time::{Time, later},
    policy::Policy,
    rotation::scene::Config,
    world::{
        fleet::Model,
        scenario::{
            Pool, Scenario,
            objects::{Instead, Objects},
        },
    },
};

/// What was read.
#[derive(Debug, Default)]
pub struct Found {
    /// The fleet.
    pub objects: Objects,
    /// The policies, by name.
    pub policies: BTreeMap<String, Policy>,
    /// The server's time.
    pub now: Option<Time>,
}

/// Brings together what was typed and what was read.
///
/// # Errors
/// A sentence, where it can't be.
pub fn scenario(args: &SimulateArgs, mut found: Found) -> Result<Scenario, String> {
    if !args.fleet.files.is_empty() {
        found = files::read(&args.fleet.files)?;
    }
    let from = args.trial.from.or(found.now.map(typed::whole)).unwrap_or_else(next_midnight);
    let until = later(from, TimeDelta::days(args.trial.days));
    let is_read = args.fleet.from_cluster || !args.fleet.files.is_empty();
    let mut assumed = Vec::new();
    let policies = policies(args, found.policies, is_read, &mut assumed)?;
    let pools = pools(args, found.objects, is_read, from, &mut assumed)?;
    let mut scenario = Scenario {
        pools,
        policies,
        model: Model { drain: args.trial.drain.map_or(0, |drain| drain.num_seconds()), ..Model::default() },
        config: Config { max_in_flight: args.trial.max_in_flight.map(NonZeroUsize::get), ..args.reach.config() },
        from,
        until,
        seed: args.trial.seed,
        outages: Vec::new(),
        assumed,
    };
    let first = first_opening(&scenario);
    let zone = scenario.zone();
    scenario.model.no_capacity = args.trial.fail_capacity.iter().flat_map(|when| when.stretches(from, until, zone, first)).collect();
    scenario.outages = args.trial.outage.iter().flat_map(|when| when.stretches(from, until, zone, first)).collect();
    scenario.outages.sort_unstable();
    scenario.assumed.extend(what_ifs(args, &scenario));
    Ok(scenario)
}

fn policies(
    args: &SimulateArgs,
    read: BTreeMap<String, Policy>,
    is_read: bool,
    assumed: &mut Vec<String>,
) -> Result<BTreeMap<String, Policy>, String> {
    let policies = if !args.policy.policies.is_empty() {
        let policies = files::read(&args.policy.policies)?.policies;
        if policies.is_empty() {
            let names: Vec<String> = args.policy.policies.iter().map(|path| path.display().to_string()).collect();
            return Err(format!("there is no RotationPolicy in {}", names.join(", ")));
        }
        policies
    } else if !args.policy.windows.is_empty() {
        let policy = typed::under(args.policy.windows.clone())?;
        BTreeMap::from([(policy.name.clone(), policy)])
    } else if !read.is_empty() {
        read
    } else {
        let lead = if is_read { "there is no RotationPolicy in what was given" } else { "the policy is made up" };
        assumed.push(format!("{lead}: Wed and Sat 02:00-06:00 Europe/Berlin on every NodePool (--policy, --window)"));
        let window = json!({"timezone": "Europe/Berlin", "days": ["Wed", "Sat"], "start": "02:00", "end": "06:00"});
        let policy = typed::under(vec![window])?;
        BTreeMap::from([(policy.name.clone(), policy)])
    };
    // By these a pass tells one version of a policy from another; a file has none.
    let named = policies.into_iter().map(|(name, mut policy)| {
        policy.generation = policy.generation.max(1);
        if policy.uid.is_empty() {
            policy.uid.clone_from(&name);
        }
        (name, policy)
    });
    Ok(named.collect())
}

fn pools(args: &SimulateArgs, objects: Objects, is_read: bool, from: Time, assumed: &mut Vec<String>) -> Result<Vec<Pool>, String> {
    let numbers = args.fleet.numbers();
    if objects.is_empty() {
        if args.fleet.from_cluster {
            return Err("there is no NodePool in this cluster".into());
        }
        if numbers.nodes < numbers.pools {
            return Err(format!("{} nodes are too few for {} NodePools (--nodes, --pools)", numbers.nodes, numbers.pools));
        }
        let lead = if is_read { "there is no NodePool in what was given" } else { "the fleet is made up" };
        let grace = numbers.grace.as_deref().unwrap_or("none");
        assumed.push(format!(
            "{lead}: nodes of all ages, expireAfter {}, terminationGracePeriod {grace}, {} Pods on each, {} of each workload may be down",
            numbers.expire_after, numbers.pods_per_node, numbers.max_unavailable
        ));
        return Ok(numbers.fleet(from));
    }
    let instead = Instead { expire_after: args.fleet.expire_after.clone(), grace: args.fleet.tgp.clone() };
    let (pools, told) = objects.fleet(&numbers, &instead, from);
    assumed.extend(told);
    Ok(pools)
}

/// When something may start for the first time, in any pool.
fn first_opening(scenario: &Scenario) -> Option<Time> {
    let schedules = scenario.schedules();
    let first = scenario.pools.iter().filter_map(|pool| scenario.rule(&pool.spec.pool, &schedules).open.first().map(|open| open.start));
    first.min().map(|first| first.max(scenario.from))
}

/// What is tried, as sentences.
fn what_ifs(args: &SimulateArgs, scenario: &Scenario) -> Vec<String> {
    let show = |(from, to): &(Time, Time)| {
        let at = |time: &Time| scenario.zone().local(*time).format("%a %Y-%m-%d %H:%M").to_string();
        format!("{} to {} {}", at(from), at(to), scenario.zone())
    };
    let mut told = Vec::new();
    match scenario.model.no_capacity.as_slice() {
        [] => {}
        [only] => told.push(format!("what if no instance is to be had {}", show(only))),
        [first, .., last] => {
            let count = scenario.model.no_capacity.len();
            told.push(format!("what if no instance is to be had {count} times, first {}, last {}", show(first), show(last)));
        }
    }
    if let Some(drain) = args.trial.drain {
        told.push(format!("what if every drain takes {} or longer", crate::api::time::format_duration(drain)));
    }
    if let Some(max) = scenario.limit() {
        let rotations = if max == 1 { "rotation is" } else { "rotations are" };
        told.push(format!("what if no more than {max} {rotations} in flight in the cluster"));
    }
    told.extend(scenario.outages.iter().map(|outage| format!("what if no pass runs {}", show(outage))));
    told
}
