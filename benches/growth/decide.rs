//! How the time of a decision on an idle cluster grows with NodePools, NodeClaims, windows and policies, each doubled by itself.

use std::{collections::BTreeMap, hint::black_box};

use chrono::TimeDelta;
use noderotation::{
    api::time::{Time, later, parse_annotation, to_annotation},
    cli::reach,
    policy::read,
    rotation::decide::decide,
    view::View,
};
use serde_json::{Value, json};

use crate::{RUNS, least};

/// What doubling one of them may make of the time, with a tenth for what else the machine does.
const AIM: f64 = 2.2;

/// A cluster.
#[derive(Clone, Copy)]
struct Size {
    pools: usize,
    /// Of each pool.
    claims: usize,
    /// Of each policy.
    windows: usize,
    policies: usize,
}

const BASE: Size = Size { pools: 100, claims: 50, windows: 8, policies: 50 };

/// What is doubled, and the cluster in which it is so many times as many.
type Way = (&'static str, fn(usize) -> Size);

const WAYS: [Way; 4] = [
    ("NodePools", |times| Size { pools: BASE.pools * times, ..BASE }),
    ("NodeClaims", |times| Size { claims: BASE.claims * times, ..BASE }),
    ("windows", |times| Size { windows: BASE.windows * times, ..BASE }),
    ("policies", |times| Size { policies: BASE.policies * times, ..BASE }),
];

/// Whether the aim is met.
pub fn bench() -> bool {
    let Size { pools, claims, windows, policies } = BASE;
    println!("deciding on {pools} NodePools of {claims} NodeClaims, {policies} policies of {windows} windows, nothing due;");
    println!("milliseconds, the least of {RUNS} runs, and what doubling one of them makes of it\n");
    println!("{:40}{:>10}{:>10}{:>10}{:>16}", "doubled", "once", "twice", "4 times", "growth");
    let mut within = true;
    for (name, cluster) in WAYS {
        let [once, twice, four] = [1, 2, 4].map(|times| measure(cluster(times)));
        println!("{name:40}{once:>10.2}{twice:>10.2}{four:>10.2}{:>8.1}{:>8.1}", twice / once, four / twice);
        within &= twice / once < AIM && four / twice < AIM;
    }
    println!("{} {AIM} for each\n", if within { "within" } else { "ABOVE" });
    within
}

fn measure(size: Size) -> f64 {
    let now = parse_annotation("2026-12-02T12:00:00Z").unwrap();
    let config = reach::config("rotation", TimeDelta::minutes(1));
    let view = view(size, now);
    least(|| {
        let decision = black_box(decide(&view, now, &config));
        assert!(decision.errors.is_empty() && decision.steps.len() == size.pools);
        assert!(decision.steps.values().all(|step| step.assessment.governed && step.effects.is_empty()));
    })
}

fn view(size: Size, now: Time) -> View {
    let mut view = View::default();
    for number in 0..size.policies {
        let policy = read::policy(&policy(number, size.windows));
        view.policies.insert(policy.name.clone(), policy);
    }
    for number in 0..size.pools {
        let pool = pool(number, number % size.policies);
        view.pools.insert(format!("pool-{number}"), serde_json::from_value(pool).unwrap());
        for claim in 0..size.claims {
            let name = format!("pool-{number}-{claim}");
            let born = later(now, -TimeDelta::hours(i64::try_from(claim % 100).unwrap()));
            view.claims.insert(name.clone(), serde_json::from_value(self::claim(number, &name, born)).unwrap());
        }
    }
    view
}

/// Windows of a quarter of an hour in the night from Saturday to Sunday.
fn policy(number: usize, windows: usize) -> Value {
    let minute = |minute: usize| format!("{:02}:{:02}", minute / 60, minute % 60);
    let window =
        |index: usize| json!({"timezone": "Europe/Berlin", "days": ["Sat"], "start": minute(index * 20), "end": minute(index * 20 + 15)});
    let windows: Vec<Value> = (0..windows).map(window).collect();
    json!({
        "metadata": {"name": format!("team-{number}"), "uid": format!("uid-{number}"), "generation": 1},
        "spec": {"nodePoolSelector": {"matchLabels": {"team": format!("team-{number}")}}, "maintenanceWindows": windows},
    })
}

fn pool(number: usize, policy: usize) -> Value {
    json!({
        "metadata": {"name": format!("pool-{number}"), "uid": format!("pool-{number}"), "labels": {"team": format!("team-{policy}")}},
        "spec": {"template": {"metadata": {}, "spec": {"expireAfter": "720h", "terminationGracePeriod": "1h"}}},
        "status": {},
    })
}

fn claim(pool: usize, name: &str, born: Time) -> Value {
    let labels = BTreeMap::from([("karpenter.sh/nodepool", format!("pool-{pool}")), ("kubernetes.io/arch", "amd64".to_owned())]);
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": to_annotation(born)});
    json!({
        "metadata": {"name": name, "uid": name, "creationTimestamp": to_annotation(born), "labels": labels},
        "spec": {"expireAfter": "720h", "terminationGracePeriod": "1h"},
        "status": {"nodeName": format!("node-{name}"), "conditions": [ready]},
    })
}
