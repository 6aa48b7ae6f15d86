use std::{collections::BTreeMap, sync::Arc};

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::{
    Placed, PlacedPod, Rule, Scenario,
    forecast::{Forecast, PoolForecast},
    invent::Numbers,
    objects::{Instead, Objects},
    sum::Tally,
};
use crate::{
    api::time::{Time, later, to_api},
    policy::{Policy, read},
    rotation::scene::Config,
    surge::placeholder::PlaceholderSettings,
    world::{fleet::Model, history::Event, tests::at},
};

const DAYS: i64 = 14;

fn weekly(days: &[&str]) -> BTreeMap<String, Policy> {
    let window = json!({"timezone": "UTC", "days": days, "start": "02:00", "end": "06:00"});
    let object = json!({
        "metadata": {"name": "weekly", "uid": "u", "generation": 1},
        "spec": {"nodePoolSelector": {"matchLabels": {"workload": "api"}}, "maintenanceWindows": [window], "surge": {"readyTimeout": "20m"}},
    });
    BTreeMap::from([("weekly".to_owned(), read::policy(&object))])
}

fn numbers() -> Numbers {
    Numbers { nodes: 8, pools: 2, ..Numbers::default() }
}

/// Two pools, `api` under the policy and `data` under none.
fn scenario() -> Scenario {
    let from = at("2026-12-01T00:00:00Z");
    let placeholder = PlaceholderSettings { namespace: "rotation".into(), image: "pause".into(), pull_secrets: Vec::new() };
    Scenario {
        pools: numbers().fleet(from),
        policies: weekly(&["Wed", "Sat"]),
        model: Model::default(),
        config: Config { cadence: TimeDelta::minutes(1), placeholder, rehearse: false, max_in_flight: None },
        from,
        until: later(from, TimeDelta::days(DAYS)),
        seed: 1,
        outages: Vec::new(),
        assumed: Vec::new(),
    }
}

fn play(scenario: &Scenario) -> Forecast {
    scenario.play(&|_| {})
}

fn day(number: i64) -> Time {
    later(at("2026-12-01T00:00:00Z"), TimeDelta::days(number))
}

#[test]
fn the_governed_pool_is_rotated_in_windows_and_the_other_fares_as_without() {
    let forecast = play(&scenario());
    let [api, data] = forecast.pools.as_slice() else { panic!("{:?}", forecast.pools) };
    assert_eq!((api.name.as_str(), api.policy.as_deref()), ("api", Some("weekly")));
    assert_eq!(api.forced_without, 4);
    assert_eq!(api.with.expired, 0);
    assert_eq!(api.with.ended, api.with.in_window);
    assert_eq!(u64::try_from(api.with.in_window), Ok(api.outcomes.success));
    assert!(api.with.in_window >= 4);
    assert_eq!(api.with.pods_down_outside, 0);
    assert!(api.without.pods_down_outside > 0);
    assert_eq!(data.policy, None);
    assert_eq!(data.with, data.without);
    assert_eq!(data.forced_without, 4);
    assert!(forecast.timeline.is_sorted_by_key(|entry| entry.at));
}

#[test]
fn the_same_question_has_the_same_answer_and_another_seed_another() {
    let text = |seed| serde_json::to_string(&play(&Scenario { seed, ..scenario() })).unwrap();
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

#[test]
fn without_capacity_attempts_fail_and_no_node_is_drained() {
    let model = Model { no_capacity: vec![(day(1), day(2))], ..Model::default() };
    let forecast = play(&Scenario { model, until: day(2), ..scenario() });
    let api = &forecast.pools[0];
    assert!(api.outcomes.failure > 0, "{api:?}");
    assert_eq!((api.outcomes.success, api.with.in_window), (0, 0));
}

#[test]
fn in_an_outage_nothing_is_rotated() {
    let forecast = play(&Scenario { outages: vec![(day(0), day(DAYS))], ..scenario() });
    assert_eq!(forecast.pools[0].with, forecast.pools[0].without);
}

#[test]
fn drains_take_as_long_as_asked_for() {
    let model = Model { drain: 45 * 60, ..Model::default() };
    let forecast = play(&Scenario { model, ..scenario() });
    let of = |event| forecast.timeline.iter().filter(move |entry| entry.pool == "api" && entry.event == event);
    assert!(of(Event::Draining).count() > 0);
    for draining in of(Event::Draining) {
        let gone = of(Event::Gone).find(|gone| gone.claim == draining.claim).unwrap();
        assert!(gone.at - draining.at >= TimeDelta::minutes(45), "{draining:?} {gone:?}");
    }
}

/// Five pools under one policy, whose drains leave a window room for few.
fn busy(max_in_flight: Option<usize>) -> Scenario {
    let ordinary = scenario();
    let window = json!({"timezone": "UTC", "days": ["Wed", "Sat"], "start": "02:00", "end": "04:00"});
    let object = json!({
        "metadata": {"name": "all", "uid": "u", "generation": 1},
        "spec": {"nodePoolSelector": {}, "maintenanceWindows": [window], "surge": {"readyTimeout": "20m"}},
    });
    Scenario {
        pools: Numbers { nodes: 15, pools: 5, ..Numbers::default() }.fleet(ordinary.from),
        policies: BTreeMap::from([("all".to_owned(), read::policy(&object))]),
        model: Model { drain: 45 * 60, ..Model::default() },
        config: Config { max_in_flight, ..ordinary.config },
        ..ordinary
    }
}

/// The most rotations at once.
fn in_flight(forecast: &Forecast) -> usize {
    let mut most = 0;
    let mut rotating = std::collections::BTreeSet::new();
    for entry in &forecast.timeline {
        match entry.event {
            Event::Started => drop(rotating.insert(&entry.pool)),
            Event::Completed | Event::Failed | Event::Overtaken => drop(rotating.remove(&entry.pool)),
            _ => {}
        }
        most = most.max(rotating.len());
    }
    most
}

#[test]
fn a_limit_on_rotations_in_flight_holds_across_pools_and_costs_windows() {
    let missed = |forecast: &Forecast| forecast.pools.iter().map(|pool| pool.window_missed).sum::<u64>();
    let [one, two, free] = [Some(1), Some(2), None].map(|max| play(&busy(max)));
    assert_eq!([&one, &two, &free].map(in_flight), [1, 2, 5]);
    let success = [&one, &two, &free].map(|forecast| forecast.pools.iter().map(|pool| pool.outcomes.success).sum::<u64>());
    assert!(success[0] > 0 && success.is_sorted() && success[0] < success[2], "{success:?}");
    assert!(missed(&one) > 0);
    assert_eq!(missed(&free), 0);
    // Without passes nothing is another.
    assert_eq!(one.timeline_without, free.timeline_without);
}

#[test]
fn a_limit_that_limits_nothing_changes_nothing() {
    let free = busy(None);
    let unlimited = play(&free);
    assert_eq!(play(&busy(Some(5))), unlimited);
    // The pools' own histories are the same on one clock, too.
    let schedules = free.schedules();
    let rules: Vec<Rule<'_>> = free.pools.iter().map(|pool| free.rule(&pool.spec.pool, &schedules)).collect();
    let model = Arc::new(free.model.clone());
    let passes = free.passes(&Arc::default());
    let told = free.play_together(&model, &rules, &passes).into_iter().map(|(index, played)| {
        let (pool, rule) = (&free.pools[index / 2], &rules[index / 2]);
        PoolForecast::of(&free, pool, rule, played, free.play_pool(pool, &model, &rule.open, None))
    });
    assert_eq!(Forecast::of(&free, told.collect()), unlimited);
}

#[test]
fn days_add_up_to_the_whole() {
    let forecast = play(&scenario());
    let sum = |of: fn(&Tally) -> usize| {
        let days = forecast.stretches(None);
        days.iter().map(|day| of(&day.inside) + of(&day.outside)).sum::<usize>()
    };
    assert_eq!(sum(|tally| tally.rotated), forecast.sum(|pool| pool.with.ended - pool.with.expired));
    assert_eq!(sum(|tally| tally.expired), forecast.sum(|pool| pool.with.expired));
    let without: usize = forecast.stretches(None).iter().map(|day| day.without.expired).sum();
    assert_eq!(without, forecast.sum(|pool| pool.without.expired));
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn claim(name: &str, created: &str) -> crate::api::karpenter::NodeClaim {
    read(json!({
        "metadata": {"name": name, "creationTimestamp": created, "labels": {"karpenter.sh/nodepool": "api"},
            "annotations": {"noderotation.io/state": "pending", "noderotation.io/rotate-requested": "2026-12-01T00:00:00Z"}},
        "spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"},
        "status": {"nodeName": format!("node-{name}"), "capacity": {"cpu": "4", "memory": "16Gi", "pods": "58"}},
    }))
}

fn pod(name: &str, node: &str, owner: (&str, &str)) -> crate::api::pod::Pod {
    read(json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": owner.1},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner.0, "name": owner.1, "uid": "u", "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
        "status": {"phase": "Running"},
    }))
}

fn objects() -> Objects {
    let pool = json!({"metadata": {"name": "api", "labels": {"workload": "api"}, "annotations": {
        "noderotation.io/active-rotation": "a", "noderotation.io/freeze": "2026-12-02T00:00:00Z"}}});
    let budget = json!({"metadata": {"name": "b", "namespace": "shop"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "cart"}}}});
    let node = json!({"metadata": {"name": "node-a", "creationTimestamp": "2026-11-25T00:00:00Z",
        "annotations": {"karpenter.sh/do-not-disrupt": "true"}, "labels": {"karpenter.sh/nodepool": "api"}}});
    Objects {
        pools: BTreeMap::from([("api".into(), read(pool))]),
        claims: BTreeMap::from([
            ("a".into(), claim("a", "2026-11-25T00:00:00Z").into()),
            ("b".into(), claim("b", "2026-11-28T00:00:00Z").into()),
            ("old".into(), claim("old", "2026-11-01T00:00:00Z").into()),
        ]),
        nodes: BTreeMap::from([("node-a".into(), read(node))]),
        pods: vec![
            pod("cart-1", "node-a", ("ReplicaSet", "cart")),
            pod("cart-2", "node-b", ("ReplicaSet", "cart")),
            pod("cart-3", "node-b", ("ReplicaSet", "cart")),
            pod("agent-1", "node-a", ("DaemonSet", "agent")),
        ],
        budgets: Some(vec![read(budget)]),
        sampled: None,
    }
}

fn nodes(pods: &[PlacedPod]) -> Vec<&str> {
    pods.iter().map(|pod| pod.node.as_str()).collect()
}

#[test]
fn objects_become_a_fleet_and_what_is_left_out_is_told() {
    let (pools, assumed) = objects().fleet(&numbers(), &Instead::default(), day(0));
    let [pool] = pools.as_slice() else { panic!("{pools:?}") };
    let named: Vec<(&str, &str)> = pool.spec.nodes.iter().map(|node| (node.claim.as_str(), node.node.as_str())).collect();
    assert_eq!(named, [("a", "node-a"), ("b", "node-b")]);
    assert_eq!(assumed, ["1 NodeClaims have passed their deadline by 2026-12-01T00:00:00Z and are left out: --from takes an earlier time"]);
    let annotations: Vec<&String> = pool.spec.pool.metadata.annotations.keys().collect();
    assert_eq!(annotations, ["noderotation.io/freeze"]);
    let [Placed { workload: cart, pods }] = pool.placed.as_slice() else { panic!("{:?}", pool.placed) };
    assert_eq!((cart.name.as_str(), cart.replicas, cart.max_unavailable), ("shop/ReplicaSet/cart", 3, Some(1)));
    assert_eq!(nodes(pods), ["node-a", "node-b", "node-b"]);
    assert_eq!((pool.spec.daemons.cpu, pool.spec.daemons.pods), (500, 1));
    assert_eq!(pool.words[0].on_node.len(), 1);
    assert_eq!(pool.words[0].on_claim.keys().collect::<Vec<_>>(), ["noderotation.io/rotate-requested"]);
}

#[test]
fn what_an_operator_wrote_counts_in_the_forecast() {
    let (pools, _) = objects().fleet(&numbers(), &Instead::default(), day(0));
    let forecast = play(&Scenario { pools, until: day(4), ..scenario() });
    let started: Vec<&str> =
        forecast.timeline.iter().filter(|entry| entry.event == Event::Started).map(|entry| entry.claim.as_str()).collect();
    // b was asked for; so was a, which may not be disrupted. The freeze ends before the window opens.
    assert_eq!(started, ["b"]);
}

#[test]
fn missing_kinds_are_filled_in_and_told() {
    let bare = Objects { claims: BTreeMap::new(), pods: Vec::new(), nodes: BTreeMap::new(), budgets: None, ..objects() };
    let (pools, assumed) = bare.fleet(&numbers(), &Instead::default(), day(0));
    assert_eq!(pools[0].spec.nodes.len(), 8);
    assert_eq!(assumed.len(), 2, "{assumed:?}");
    let claims_only = Objects { pools: BTreeMap::new(), nodes: BTreeMap::new(), budgets: None, ..objects() };
    let (pools, assumed) = claims_only.fleet(&numbers(), &Instead::default(), day(0));
    assert_eq!(pools[0].spec.pool.spec.template.spec.expire_after.as_deref(), Some("336h"));
    assert_eq!(assumed.len(), 3, "{assumed:?}");
    let nodes_only = Objects { claims: BTreeMap::new(), ..objects() };
    let instead = Instead { expire_after: Some("480h".into()), grace: None };
    let (pools, assumed) = nodes_only.fleet(&numbers(), &instead, day(0));
    assert_eq!(pools[0].spec.nodes[0].expire_after.as_deref(), Some("480h"));
    assert_eq!(assumed.len(), 1, "{assumed:?}");
}

#[test]
fn nodes_whose_pods_are_not_known_are_like_the_others() {
    let sampled = Some(std::collections::BTreeSet::from(["node-a".to_owned()]));
    let mut some = Objects { sampled, ..objects() };
    some.pods.retain(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some("node-a")));
    let (pools, _) = some.fleet(&numbers(), &Instead::default(), day(0));
    assert_eq!(nodes(&pools[0].placed[0].pods), ["node-a", "node-b"]);
}

/// The claims whose drains were ended by force, where these of the three Pods carry such a do-not-disrupt. One of them is on the
/// Node of a, two on that of b, and both are rotated.
fn forced(value: &str, pods: &[usize]) -> Vec<String> {
    let mut objects = objects();
    objects.nodes.clear();
    for index in pods {
        let pod = &mut objects.pods[*index];
        pod.metadata.annotations = Some(BTreeMap::from([("karpenter.sh/do-not-disrupt".into(), value.into())]));
        pod.status.as_mut().unwrap().start_time = Some(to_api(later(day(0), -TimeDelta::hours(1))));
    }
    let (pools, _) = objects.fleet(&numbers(), &Instead::default(), day(0));
    let budgets: Vec<Option<u32>> = pools[0].placed.iter().map(|placed| placed.workload.max_unavailable).collect();
    assert_eq!(budgets, [Some(1)]);
    let forecast = play(&Scenario { pools, until: day(3), ..scenario() });
    forecast.timeline.into_iter().filter(|entry| entry.event == Event::Forced).map(|entry| entry.claim).collect()
}

#[test]
fn a_protected_pod_keeps_its_own_node_and_no_other() {
    assert_eq!(forced("true", &[]), Vec::<String>::new());
    assert_eq!(forced("true", &[0]), ["a"]);
    assert_eq!(forced("true", &[1]), ["b"]);
    // By its own start, a duration ends before the window opens at 02:00 of the next day.
    assert_eq!(forced("26h", &[0]), Vec::<String>::new());
    assert_eq!(forced("48h", &[0]), ["a"]);
    assert_eq!(forced("false", &[0, 1, 2]), Vec::<String>::new());
}

#[test]
fn what_protects_every_pod_of_a_workload_protects_those_that_follow() {
    let mut forced = forced("true", &[0, 1, 2]);
    let others = forced.extract_if(.., |claim| !["a", "b"].contains(&claim.as_str())).count();
    assert_eq!((forced.len(), others), (2, 0));
    let follows = |protected: &[bool]| {
        let spec = |workload| Placed {
            workload,
            pods: protected
                .iter()
                .map(|is| PlacedPod { node: "node-a".into(), do_not_disrupt: is.then(|| "true".into()), since: None })
                .collect(),
        };
        let (mut pools, _) = objects().fleet(&numbers(), &Instead::default(), day(0));
        pools[0].placed = pools[0].placed.drain(..).map(|placed| spec(placed.workload)).collect();
        let mut world = scenario().world(&pools[0], &Arc::default(), &Arc::default()).into_inner();
        let before: Vec<u32> = world.pods.keys().copied().collect();
        before.iter().for_each(|id| world.end_pod(*id, true));
        world.advance(day(1));
        world.pods.keys().filter(|id| world.protection(**id).is_some()).count()
    };
    assert_eq!((follows(&[true; 3]), follows(&[true, false, true])), (3, 0));
}
