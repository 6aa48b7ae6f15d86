//! What it takes to find the policies of all pools, and how that grows with the number of both: for every way in which policies
//! select pools.

use std::{collections::BTreeMap, hint::black_box};

use noderotation::policy::{
    Policy, read,
    resolve::{Governance, Resolver},
};
use serde_json::{Value, json};

use crate::{RUNS, least};

/// As many policies as pools.
const SIZES: [usize; 3] = [500, 1000, 2000];
/// Milliseconds for the largest.
const AIM: f64 = 50.0;

type Labels = BTreeMap<String, String>;

/// A way to select pools: what it is called, and the selector of the policy with a number.
type Way = (&'static str, fn(usize) -> Value);

const WAYS: [Way; 4] = [
    ("a label of its own", |number| json!({"matchLabels": {"team": team(number)}})),
    ("a shared label and one of its own", |number| json!({"matchLabels": {"env": "prod", "team": team(number)}})),
    (
        "one of two values",
        |number| json!({"matchExpressions": [{"key": "team", "operator": "In", "values": [team(number), format!("former-{number}")]}]}),
    ),
    ("a key of its own, whatever its value", |number| json!({"matchExpressions": [{"key": team(number), "operator": "Exists"}]})),
];

fn team(number: usize) -> String {
    format!("team-{number}")
}

/// Whether the aim is met.
pub fn bench() -> bool {
    println!("finding the policy of every pool; milliseconds, the least of {RUNS} runs, and what doubling both makes of it\n");
    println!("{:40}{:>10}{:>10}{:>10}{:>16}", "the policies ask for", SIZES[0], SIZES[1], SIZES[2], "growth");
    let mut within = true;
    for (name, selector) in WAYS {
        let [small, middle, large] = SIZES.map(|size| measure(size, selector));
        println!("{name:40}{small:>10.2}{middle:>10.2}{large:>10.2}{:>8.1}{:>8.1}", middle / small, large / middle);
        within &= large < AIM;
    }
    println!("{} {AIM} ms for {} of both\n", if within { "within" } else { "ABOVE" }, SIZES[2]);
    within
}

fn measure(size: usize, selector: fn(usize) -> Value) -> f64 {
    let policies: BTreeMap<String, Policy> = (0..size).map(|number| (team(number), policy(number, selector(number)))).collect();
    let pools: Vec<Labels> = (0..size).map(labels).collect();
    least(|| {
        let resolver = Resolver::of(&policies);
        let governed = pools.iter().filter(|labels| !matches!(resolver.governance(labels), Governance::Ungoverned)).count();
        assert_eq!(black_box(governed), pools.len());
    })
}

fn policy(number: usize, selector: Value) -> Policy {
    let window = json!({"timezone": "Europe/Berlin", "days": ["Sat"], "start": "02:00", "end": "06:00"});
    read::policy(&json!({
        "metadata": {"name": team(number)},
        "spec": {"nodePoolSelector": selector, "maintenanceWindows": [window]},
    }))
}

/// As many labels as NodePools have in production.
fn labels(number: usize) -> Labels {
    let fixed = ["app", "cost-centre", "owner", "region", "stage", "tier"].map(|key| (key.to_owned(), format!("{key}-of-many")));
    let own = [("env".into(), "prod".into()), ("team".into(), team(number)), (team(number), "yes".into())];
    fixed.into_iter().chain(own).collect()
}
