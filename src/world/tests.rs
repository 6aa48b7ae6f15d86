use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::{
    fleet::{Model, NodeSpec, PoolSpec, WorkloadSpec},
    history::Event,
    pool::PoolWorld,
    run::{Passes, run},
    size::Size,
};
use crate::{
    api::{
        keys,
        pod::Pod,
        time::{Time, later, parse_annotation, to_annotation},
    },
    cli::reach,
    policy::{Policy, read},
    rotation::{
        effect::{Effect, Fresh, Outcome},
        scene::Config,
    },
    view::{Answer, Facts, Need, Rehearsal},
};

pub(super) fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

fn config() -> Config {
    reach::config("rotation", TimeDelta::minutes(1))
}

fn policies() -> BTreeMap<String, Policy> {
    let window = json!({"timezone": "UTC", "days": ["Wed", "Sat"], "start": "02:00", "end": "06:00"});
    let object = json!({
        "metadata": {"name": "weekly", "uid": "uid-weekly", "generation": 1, "resourceVersion": "1"},
        "spec": {"nodePoolSelector": {}, "maintenanceWindows": [window], "surge": {}},
    });
    BTreeMap::from([("weekly".to_owned(), read::policy(&object))])
}

fn spec(nodes: usize, begin: Time) -> PoolSpec {
    let pool = json!({
        "metadata": {"name": "web", "labels": {}, "annotations": {}},
        "spec": {"template": {"metadata": {}, "spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}}},
        "status": {},
    });
    let node = |index: usize| NodeSpec {
        claim: format!("web-{index}"),
        node: format!("node-{index}"),
        created: later(begin, -TimeDelta::hours(i64::try_from(index * 20 % 300).unwrap())),
        expire_after: Some("336h".into()),
        grace: Some("1h".into()),
        capacity: Size::instance(8, 32),
        zone: 0,
    };
    let replicas = u32::try_from(nodes * 5).unwrap();
    let workload = WorkloadSpec {
        name: "shop".into(),
        replicas,
        request: Size::pod(1000, 1024),
        ready_after: 10..=30,
        grace: 5,
        max_unavailable: Some(1),
        sticky: false,
    };
    PoolSpec {
        pool: serde_json::from_value(pool).unwrap(),
        instances: vec![Size::instance(8, 32)],
        zones: vec!["a".into()],
        daemons: Size::pod(100, 128),
        nodes: (0..nodes).map(node).collect(),
        workloads: vec![workload],
    }
}

#[test]
fn a_month_rotates_everything_inside_the_windows() {
    let begin = at("2026-12-01T00:00:00Z");
    let until = later(begin, TimeDelta::days(30));
    let world = || RefCell::new(PoolWorld::new(spec(6, begin), &policies(), Arc::new(Model::default()), 1, begin));
    let passes = Passes { config: config(), jump: true, outages: Vec::new(), calendar: Arc::default() };
    let with = world();
    run(&with, Some(&passes), until);
    let with = with.into_inner();
    for happening in &with.history {
        eprintln!("{} {} {} {}", to_annotation(happening.at), happening.claim, happening.event.as_str(), happening.detail);
    }
    let count = |world: &PoolWorld, event| world.history.iter().filter(|happening| happening.event == event).count();
    assert_eq!(count(&with, Event::Expired), 0);
    assert!(count(&with, Event::Completed) > 6);
    let without = world();
    run(&without, None, until);
    assert!(count(&without.into_inner(), Event::Expired) > 6);
}

#[test]
fn taints_keep_out_a_placeholder_that_tolerates_none_and_let_the_engines_in() {
    let begin = at("2026-12-01T00:00:00Z");
    let mut spec = spec(6, begin);
    let taint = json!([{"key": "team", "value": "web", "effect": "NoSchedule"}]);
    spec.pool.spec.template.spec.taints = serde_json::from_value(taint).unwrap();
    let count = |world: &PoolWorld, event| world.history.iter().filter(|happening| happening.event == event).count();

    let world = RefCell::new(PoolWorld::new(spec.clone(), &policies(), Arc::new(Model::default()), 1, begin));
    let passes = Passes { config: config(), jump: true, outages: Vec::new(), calendar: Arc::default() };
    run(&world, Some(&passes), later(begin, TimeDelta::days(30)));
    let rotated = world.into_inner();
    assert!(count(&rotated, Event::Completed) > 6);
    assert_eq!(count(&rotated, Event::Failed), 0);

    let mut world = PoolWorld::new(spec, &BTreeMap::new(), Arc::new(Model::default()), 1, begin);
    let requests = json!({"requests": {"cpu": "100m"}});
    let placeholder =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "pause", "image": "pause", "resources": requests}]}});
    world.add_placeholder(serde_json::from_value(placeholder).unwrap());
    world.advance(later(begin, TimeDelta::hours(1)));
    assert_eq!(world.view.placeholders["p"].spec.as_ref().unwrap().node_name, None);
    assert_eq!(count(&world, Event::Launched), 0);
}

/// A pool under no policy, whose Nodes go at once, and the first of its Nodes deleted a moment ago.
fn deleted(nodes: usize, away: u32, limit: Option<&str>) -> PoolWorld {
    let mut world = ungoverned(nodes, away, limit);
    world.delete_claim("web-0");
    world
}

fn ungoverned(nodes: usize, away: u32, limit: Option<&str>) -> PoolWorld {
    let begin = at("2026-12-01T00:00:00Z");
    let mut spec = spec(nodes, begin);
    spec.workloads[0].replicas = u32::try_from(nodes * 4).unwrap();
    spec.workloads[0].max_unavailable = Some(away);
    spec.workloads[0].ready_after = 4..=4;
    spec.workloads[0].grace = 0;
    spec.pool.spec.limits = limit.map(|cpu| BTreeMap::from([("cpu".to_owned(), json!(cpu))]));
    let model = Model { terminate: 0..=0, consolidate_after: None, ..Model::default() };
    PoolWorld::new(spec, &BTreeMap::new(), Arc::new(model), 1, begin)
}

/// Moments, in seconds after the beginning, at which a Pod left the deleted Node; and when that was gone.
fn left(world: &mut PoolWorld, mut each_second: impl FnMut(&mut PoolWorld, i64)) -> (Vec<i64>, i64) {
    let (begin, mut left) = (world.now, Vec::new());
    let mut count = world.workload_pods_on("web-0");
    for second in 1..400 {
        world.advance(later(begin, TimeDelta::seconds(second)));
        each_second(world, second);
        let now = world.workload_pods_on("web-0");
        left.extend(std::iter::repeat_n(second, count - now));
        count = now;
        if !world.view.claims.contains_key("web-0") {
            return (left, second);
        }
    }
    panic!("it drains for ever");
}

#[test]
fn an_eviction_that_was_refused_is_tried_again_less_and_less_often() {
    // Each Pod's successor is Ready 4 s later; Karpenter comes back 1, 2, 3, 6, 13 and 23 s after the first try.
    assert_eq!(left(&mut deleted(3, 1, None), |_, _| {}), (vec![1, 7, 14, 24], 24));
    // Nobody tells it that the budget allows more.
    let lifted = left(&mut deleted(3, 0, None), |world, second| {
        if second == 15 {
            world.allow("shop", 5);
        }
    });
    assert_eq!(lifted, (vec![24; 4], 24));
}

#[test]
fn a_drain_takes_five_seconds_at_least() {
    assert_eq!(left(&mut deleted(3, 5, None), |_, _| {}), (vec![1; 4], 5));
}

#[test]
fn limits_are_planned_with_as_if_a_node_that_is_going_were_gone() {
    let launched = |limit: &str| {
        let mut world = deleted(1, 1, Some(limit));
        world.advance(later(world.now, TimeDelta::seconds(10)));
        world.history.iter().filter(|happening| happening.event == Event::Launched).count()
    };
    assert_eq!(["7", "8", "15", "16"].map(launched), [0, 1, 1, 1]);
}

#[test]
fn no_node_comes_for_pods_that_their_budget_never_lets_go() {
    let launched = |away: u32| {
        let mut world = deleted(1, away, None);
        world.advance(later(world.now, TimeDelta::seconds(60)));
        world.history.iter().filter(|happening| happening.event == Event::Launched).count()
    };
    assert_eq!([0, 1].map(launched), [0, 1]);
}

#[test]
fn no_node_comes_for_pods_that_are_protected() {
    let launched = |value: &str| {
        let mut world = deleted(1, 1, None);
        let pods: Vec<u32> = world.pods.keys().copied().collect();
        for id in pods {
            let mut written = world.written(id).unwrap();
            written.annotations.insert(keys::DO_NOT_DISRUPT.into(), value.into());
            world.write_pod(id, written);
        }
        world.advance(later(world.now, TimeDelta::seconds(60)));
        world.history.iter().filter(|happening| happening.event == Event::Launched).count()
    };
    assert_eq!(["true", "1h", "1s", "-1h", "false"].map(launched), [0, 0, 1, 1, 1]);
}

/// A placeholder with this do-not-disrupt runs on the first Node, whose claim is deleted then.
fn deleted_under_a_placeholder(value: Option<&str>) -> PoolWorld {
    let mut world = ungoverned(3, 5, None);
    let here = json!({"matchExpressions": [{"key": keys::HOSTNAME_LABEL, "operator": "In", "values": ["node-0"]}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}});
    let placeholder = json!({
        "metadata": {"name": "p", "annotations": {keys::DO_NOT_DISRUPT: value.unwrap_or_default()}},
        "spec": {"affinity": affinity, "containers": [{"name": "pause", "image": "pause"}]},
    });
    world.add_placeholder(serde_json::from_value(placeholder).unwrap());
    world.schedule();
    world.advance(later(world.now, TimeDelta::seconds(10)));
    assert_eq!(world.view.placeholders["p"].spec.as_ref().unwrap().node_name.as_deref(), Some("node-0"));
    world.delete_claim("web-0");
    world
}

#[test]
fn a_placeholder_that_is_protected_keeps_its_node_until_it_goes_or_the_grace_ends() {
    let after = |world: &mut PoolWorld, seconds: i64| {
        world.advance(later(world.now, TimeDelta::seconds(seconds)));
        (world.view.placeholders.contains_key("p"), world.view.claims.contains_key("web-0"))
    };
    assert_eq!(after(&mut deleted_under_a_placeholder(None), 60), (false, false));
    assert_eq!(after(&mut deleted_under_a_placeholder(Some("false")), 60), (false, false));

    let mut released = deleted_under_a_placeholder(Some("true"));
    assert_eq!(after(&mut released, 1800), (true, true));
    assert_eq!(released.workload_pods_on("web-0"), 0);
    released.delete_placeholders();
    assert_eq!(after(&mut released, 1), (false, false));

    let mut forced = deleted_under_a_placeholder(Some("true"));
    assert_eq!(after(&mut forced, 3600 - 31), (true, true));
    assert_eq!(after(&mut forced, 2), (false, false));
    assert_eq!(forced.history.iter().filter(|happening| happening.event == Event::Forced).count(), 1);
}

/// What comes of a placeholder of 2 cpu and 4Gi under a LimitRange with this item: in a rehearsal, and in earnest.
fn bounded(item: Option<serde_json::Value>) -> (Answer, Outcome) {
    let mut world = ungoverned(1, 1, None);
    world.set_limits(item.into_iter().collect());
    let requests = json!({"cpu": "2", "memory": "4Gi"});
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "annotations": {keys::SURGE_FOR: "web-0"}},
        "spec": {"containers": [{"name": "pause", "image": "pause", "resources": {"requests": requests}}]},
    }))
    .unwrap();
    let effect = Effect::CreatePlaceholder { pod: pod.into(), claim: "web-0".into() };
    let (rehearsal, mut facts) = (Rehearsal(effect.clone()), Facts::default());
    world.answer(&Need::Rehearsal(rehearsal.clone()), &mut facts);
    let outcome = world.perform(&effect, "pass");
    assert_eq!(world.view.placeholders.contains_key("p"), matches!(outcome, Outcome::Landed { .. }));
    (facts.rehearsals.remove(&rehearsal).unwrap(), outcome)
}

#[test]
fn a_limit_range_refuses_or_changes_a_placeholder_in_a_rehearsal_as_in_earnest() {
    for (item, code, why) in [
        (
            json!({"type": "Pod", "max": {"cpu": "16"}}),
            403,
            "pods \"p\" is forbidden: maximum cpu usage per Pod is 16.  No limit is specified",
        ),
        (
            json!({"type": "Container", "max": {"cpu": "1"}}),
            422,
            "Pod \"p\" is invalid: spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
    ] {
        let words = why.to_owned();
        let (rehearsed, outcome) = bounded(Some(item));
        assert_eq!(rehearsed, Answer::Refused { status: code, words: words.clone() });
        assert_eq!(outcome, Outcome::Refused { status: code, words });
    }
    assert_eq!(bounded(None).0, Answer::Agreed { after: None });
    let (rehearsed, outcome) = bounded(Some(json!({"type": "Container", "min": {"ephemeral-storage": "1Gi"}, "max": {"cpu": "4"}})));
    let (Answer::Agreed { after: Some(rehearsed) }, Outcome::Landed { after: Some(stored), .. }) = (rehearsed, outcome) else {
        panic!("it is admitted");
    };
    for pod in [*rehearsed, stored] {
        let Fresh::Pod(pod) = pod else { panic!("{pod:?}") };
        let resources = pod.spec.as_ref().unwrap().containers[0].resources.clone().unwrap();
        let text = |list: Option<BTreeMap<String, Quantity>>| -> Vec<String> {
            list.unwrap_or_default().into_iter().map(|(resource, amount)| format!("{resource}={}", amount.0)).collect()
        };
        assert_eq!(text(resources.requests), ["cpu=2", "ephemeral-storage=1Gi", "memory=4Gi"]);
        assert_eq!(text(resources.limits), ["cpu=4"]);
    }
}
