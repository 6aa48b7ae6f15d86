use serde_json::{Value, json};

use super::*;
use crate::api::time::parse_annotation;

const NOW: &str = "2026-12-05T03:00:00Z";

fn now() -> Time {
    parse_annotation(NOW).unwrap()
}

/// A running, ready Pod `shop/<name>` with the label `app=web`; `more` is merged over it.
fn pod(name: &str, more: Value) -> Pod {
    let mut whole = json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": []},
        "status": {"phase": "Running", "startTime": "2026-12-05T02:30:00Z", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    merge(&mut whole, more);
    serde_json::from_value(whole).unwrap()
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            more.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, more) => *into = more,
    }
}

fn owned(kind: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u"}]}})
}

/// A budget over `app=web` that allows nothing: 2 healthy, 2 wanted; `more` is merged over it.
fn budget(name: &str, more: Value) -> PodDisruptionBudget {
    let mut whole = json!({
        "metadata": {"name": name, "namespace": "shop", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"observedGeneration": 2, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2},
    });
    merge(&mut whole, more);
    serde_json::from_value(whole).unwrap()
}

fn claim(conditions: Value) -> NodeClaim {
    serde_json::from_value(json!({"metadata": {"name": "web-1"}, "status": {"conditions": conditions}})).unwrap()
}

fn held(pods: &[Pod], budgets: Vec<PodDisruptionBudget>) -> Vec<String> {
    let budgets = BTreeMap::from([("shop".to_owned(), budgets)]);
    blockers(pods, &budgets, &claim(json!([])), now()).pods.iter().map(ToString::to_string).collect()
}

fn held_by_budget(pod_more: Value, budget_more: Value) -> Vec<String> {
    held(&[pod("a", pod_more)], vec![budget("web", budget_more)])
}

const FREE: &str = "Pod shop/a: waits for its eviction";
const BLOCKED: &str = "Pod shop/a: PodDisruptionBudget web allows no disruption (2 healthy, 2 wanted)";

#[test]
fn a_budget_that_allows_nothing_is_named() {
    assert_eq!(held_by_budget(json!({}), json!({})), [BLOCKED]);
    assert_eq!(held_by_budget(json!({}), json!({"status": {"disruptionsAllowed": 1}})), [FREE]);
    assert_eq!(held_by_budget(json!({}), json!({"spec": {"selector": {"matchLabels": {"app": "db"}}}})), [FREE]);
    assert_eq!(
        held_by_budget(json!({}), json!({"metadata": {"generation": 3}, "status": {"disruptionsAllowed": 1}})),
        ["Pod shop/a: PodDisruptionBudget web has not been judged since its last change"]
    );
    let condition = json!({"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no controller", "lastTransitionTime": NOW});
    assert_eq!(
        held_by_budget(json!({}), json!({"status": {"conditions": [condition]}})),
        ["Pod shop/a: PodDisruptionBudget web allows no disruption, since it failed to sync: no controller"]
    );
}

#[test]
fn an_unhealthy_pod_goes_where_the_budgets_policy_lets_it() {
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let always = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, "status": {"currentHealthy": 1}});
    let if_healthy = |healthy: i32, desired: i32| json!({"status": {"currentHealthy": healthy, "desiredHealthy": desired}});
    assert_eq!(held_by_budget(unready.clone(), always.clone()), [FREE]);
    assert_eq!(held_by_budget(json!({}), always), ["Pod shop/a: PodDisruptionBudget web allows no disruption (1 healthy, 2 wanted)"]);
    assert_eq!(held_by_budget(unready.clone(), if_healthy(2, 2)), [FREE]);
    assert_eq!(
        held_by_budget(unready.clone(), if_healthy(1, 2)),
        ["Pod shop/a: PodDisruptionBudget web allows no disruption (1 healthy, 2 wanted)"]
    );
    assert_eq!(
        held_by_budget(unready, if_healthy(0, 0)),
        ["Pod shop/a: PodDisruptionBudget web allows no disruption (0 healthy, 0 wanted)"]
    );
    assert_eq!(held_by_budget(json!({"status": {"phase": "Pending", "conditions": []}}), if_healthy(1, 2)), [FREE]);
}

#[test]
fn more_than_one_budget_blocks_whatever_they_allow() {
    let allows = json!({"status": {"disruptionsAllowed": 1}});
    assert_eq!(
        held(&[pod("a", json!({}))], vec![budget("web", allows.clone()), budget("all", allows)]),
        ["Pod shop/a: 2 PodDisruptionBudgets (web, all) select it, and eviction refuses more than one"]
    );
}

#[test]
fn selectors_select_as_in_policy_v1() {
    let selected = |selector: Value| {
        let mut budget = budget("web", json!({}));
        budget.spec.as_mut().unwrap().selector = serde_json::from_value(selector).unwrap();
        held(&[pod("a", json!({}))], vec![budget]) == [BLOCKED]
    };
    let expression =
        |operator: &str, key: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    for (expected, selector) in [
        (true, json!({})),
        (false, json!(null)),
        (true, expression("In", "app", json!(["web", "db"]))),
        (false, expression("In", "app", json!(["db"]))),
        (true, expression("NotIn", "app", json!(["db"]))),
        (true, expression("NotIn", "tier", json!(["db"]))),
        (false, expression("NotIn", "app", json!(["web"]))),
        (true, expression("Exists", "app", json!(null))),
        (false, expression("Exists", "tier", json!(null))),
        (true, expression("DoesNotExist", "tier", json!(null))),
        (false, expression("DoesNotExist", "app", json!(null))),
        (false, expression("Like", "app", json!(["web"]))),
    ] {
        assert_eq!(selected(selector.clone()), expected, "{selector}");
    }
    assert_eq!(held_by_budget(json!({}), json!({"metadata": {"namespace": "other"}})), [FREE]);
}

#[test]
fn an_active_do_not_disrupt_holds_and_anything_else_is_as_absent() {
    let with = |value: &str| held(&[pod("a", json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}}))], vec![]);
    assert_eq!(with("true"), ["Pod shop/a: karpenter.sh/do-not-disrupt=true"]);
    assert_eq!(with("31m"), ["Pod shop/a: karpenter.sh/do-not-disrupt=31m until 2026-12-05T03:01:00Z"]);
    for ended_or_unreadable in ["30m", "0s", "-1h", "false", "True", "", "1d"] {
        assert_eq!(with(ended_or_unreadable), [FREE], "{ended_or_unreadable}");
    }
    let mut unstarted = pod("a", json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "5m"}}}));
    unstarted.status.as_mut().unwrap().start_time = None;
    assert_eq!(held(&[unstarted], vec![]), ["Pod shop/a: karpenter.sh/do-not-disrupt=5m, and it has not started yet"]);
}

#[test]
fn every_reason_of_a_pod_is_told() {
    let pod = pod("a", json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    assert_eq!(
        held(&[pod], vec![budget("web", json!({}))]),
        ["Pod shop/a: karpenter.sh/do-not-disrupt=true; PodDisruptionBudget web allows no disruption (2 healthy, 2 wanted)"]
    );
}

#[test]
fn a_terminating_pod_is_told_with_the_moment_it_began_and_its_finalizers() {
    let metadata =
        json!({"metadata": {"deletionTimestamp": "2026-12-05T02:59:30Z", "deletionGracePeriodSeconds": 30, "finalizers": ["a/b"]}});
    let terminating = pod("a", metadata);
    assert_eq!(
        held(&[terminating], vec![budget("web", json!({}))]),
        ["Pod shop/a: terminating since 2026-12-05T02:59:00Z (finalizers a/b)"]
    );
}

#[test]
fn only_the_first_tier_that_is_not_empty_is_told() {
    let critical = json!({"spec": {"priorityClassName": "system-node-critical"}});
    let mut critical_daemon = critical.clone();
    merge(&mut critical_daemon, owned("DaemonSet"));
    let all = [pod("cd", critical_daemon), pod("c", critical), pod("d", owned("DaemonSet")), pod("a", json!({}))];
    let told = |pods: &[Pod]| {
        held(pods, vec![]).iter().map(|line| line.chars().skip(9).take_while(|&letter| letter != ':').collect()).collect::<Vec<String>>()
    };
    assert_eq!(
        (told(&all), told(&all[..3]), told(&all[..2]), told(&all[..1])),
        (vec!["a".into()], vec!["d".into()], vec!["c".into()], vec!["cd".into()])
    );
}

#[test]
fn pods_karpenter_does_not_wait_for_are_not_told() {
    let tolerates = |toleration: Value| json!({"spec": {"tolerations": [toleration]}});
    for (waited_for, more) in [
        (false, json!({"status": {"phase": "Succeeded"}})),
        (false, json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}})),
        (false, json!({"metadata": {"deletionTimestamp": "2026-12-05T02:58:59Z"}})),
        (false, tolerates(json!({"operator": "Exists"}))),
        (false, tolerates(json!({"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule"}))),
        (false, tolerates(json!({"key": "karpenter.sh/disrupted"}))),
        (true, tolerates(json!({"key": "karpenter.sh/disrupted", "value": "x"}))),
        (true, tolerates(json!({"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoExecute"}))),
        (true, tolerates(json!({"key": "other", "operator": "Exists"}))),
        (true, tolerates(json!({"operator": "Equal"}))),
    ] {
        assert_eq!(held(&[pod("a", more.clone())], vec![]).len(), usize::from(waited_for), "{more}");
    }
}

#[test]
fn the_summary_names_a_few_those_that_are_held_first() {
    let pods: Vec<Pod> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| pod(name, json!({})))
        .chain([pod("z", json!({"metadata": {"labels": {"app": "db"}}}))])
        .collect();
    let db = budget("db", json!({"spec": {"selector": {"matchLabels": {"app": "db"}}}}));
    let found = blockers(&pods, &BTreeMap::from([("shop".to_owned(), vec![db])]), &claim(json!([])), now());
    assert_eq!(
        found.summary,
        "Pod shop/z: PodDisruptionBudget db allows no disruption (2 healthy, 2 wanted); Pod shop/a: waits for its eviction; \
         Pod shop/b: waits for its eviction; and 2 more"
    );
    assert_eq!(namespaces(&pods, now()), BTreeSet::from(["shop"]));
}

#[test]
fn with_no_pod_left_the_claim_says_what_it_waits_for() {
    let told = |conditions: Value, pods: &[Pod]| blockers(pods, &BTreeMap::new(), &claim(conditions), now());
    let waiting = "AwaitingVolumeDetachment";
    let volumes = json!({"type": "VolumesDetached", "status": "Unknown", "reason": waiting, "message": waiting, "lastTransitionTime": "2026-12-05T02:50:00Z"});
    let drained = json!({"type": "Drained", "status": "True"});
    let said = "NodeClaim web-1: VolumesDetached is Unknown since 2026-12-05T02:50:00Z: AwaitingVolumeDetachment";
    assert_eq!(
        told(json!([drained, volumes]), &[]),
        Blockers { pods: vec![], claim: vec![said.into()], summary: format!("no Pod is left to evict; {said}") }
    );
    let instance = json!({"type": "InstanceTerminating", "status": "True"});
    let detached = json!({"type": "VolumesDetached", "status": "True"});
    assert_eq!(told(json!([drained, detached, instance]), &[]).claim, ["NodeClaim web-1: InstanceTerminating is True"]);
    assert_eq!(told(json!([]), &[]).claim, ["NodeClaim web-1 says nothing of volumes or of its instance: look at its finalizers"]);
    let stuck = pod("a", json!({"metadata": {"deletionTimestamp": "2026-12-05T02:58:59Z"}}));
    assert_eq!(
        told(json!([detached]), &[stuck]).claim,
        ["Pod shop/a is terminating since 2026-12-05T02:58:59Z, and Karpenter waits for it no longer"]
    );
}
