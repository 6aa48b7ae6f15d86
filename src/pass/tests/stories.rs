//! The stories. Each is told once without a fault, and again with every fault at every one of its writes: in the end it
//! is always the same.

use std::collections::{BTreeMap, BTreeSet};

use insta::assert_snapshot;
use serde_json::json;

use super::memory::{Fault, Memory, State};
use crate::{
    api::{
        events::Lasting,
        keys,
        time::{later, to_annotation},
    },
    pass::pass,
    rotation::{
        effect::Kind,
        tests::fleet::{Fleet, Object, config, days, fleet, hours, mins, now},
        totals::Totals,
    },
};

/// What the world does between two passes; it is told which minute it is.
type World = fn(&mut State, u32);

fn noted(object: Object) -> Object {
    object.note("example.com/note", "mine")
}

/// One claim that is due, one that is not, on Nodes with notes of the operator's.
fn two_claims(fleet: Fleet) -> Fleet {
    let fleet = fleet.claim("a", |claim| claim).claim("c", |claim| claim.age(days(1)));
    fleet.change(Kind::Node, "node-a", noted).change(Kind::Node, "node-c", noted)
}

const LONGEST: u32 = 40;

/// Passes a minute apart until two in a row write nothing and nothing is in flight; answers the minutes it took.
async fn until_rest(cluster: &Memory, world: World) -> u32 {
    let mut quiet = 0;
    for minute in 0..LONGEST {
        {
            let mut state = cluster.state();
            state.now = later(now(), mins(i64::from(minute)));
            world(&mut state, minute);
        }
        cluster.next_pass();
        let writes = cluster.state().writes;
        pass(cluster, &config(), 1).await;
        let anchored = cluster
            .state()
            .object(Kind::NodePool, "web")
            .is_some_and(|pool| !pool["metadata"]["annotations"][keys::ACTIVE_ROTATION].is_null());
        quiet = if anchored || cluster.state().writes > writes { 0 } else { quiet + 1 };
        // The world's own deeds are over by then.
        if quiet >= 2 && minute > 8 {
            return minute;
        }
    }
    panic!("no rest after {LONGEST} minutes:\n{}", cluster.state().log.join("\n"));
}

/// What is left in the end: our keys on every object, totals without the times, and whether a Node is cordoned.
fn left(state: &State) -> String {
    let mut lines = Vec::new();
    for ((kind, name), object) in &state.fleet.objects {
        let meta = &object.0["metadata"];
        let of = |part: &str| meta[part].as_object().cloned().unwrap_or_default();
        let mut keys: Vec<String> = of("annotations").keys().chain(of("labels").keys()).cloned().collect();
        keys.retain(|key| key.starts_with(keys::PREFIX) || key == keys::DO_NOT_DISRUPT);
        if object.0["spec"]["unschedulable"] == true {
            keys.push("cordoned".into());
        }
        let deleting = if meta.get("deletionTimestamp").is_some() { " deleting" } else { "" };
        lines.push(format!("{kind:?} {name}{deleting}: {}", keys.join(" ")).replace(keys::PREFIX, ""));
        if *kind == Kind::NodePool {
            let pool: crate::api::karpenter::NodePool = crate::rotation::tests::fleet::typed(&object.0);
            let totals = Totals::of(&pool.metadata).unwrap();
            let Totals { success, failure, expired, fallback, surge_wait, drain, .. } = totals;
            let (waits, drains) = (surge_wait.count, drain.count);
            lines.push(format!(
                "  success {success}, failure {failure}, expired {expired}, fallback {fallback}, surges {waits}, drains {drains}"
            ));
        }
    }
    lines.join("\n")
}

/// Transitions told, each with how often. The two ends that tell of the same force-expiry share the name of their Event.
fn told(state: &State) -> BTreeMap<String, usize> {
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    let mut expired = BTreeSet::new();
    for notice in state.told.iter().filter(|notice| notice.lasting == Lasting::Transition) {
        if notice.reason == "RotationExpired" && !expired.insert(notice.regarding.name.clone()) {
            continue;
        }
        *told.entry(format!("{} {}", notice.reason, notice.regarding.name)).or_default() += 1;
    }
    told
}

/// Tells the story without a fault, then with each fault at each write; answers the first one's writes and end.
async fn everywhere(fleet: impl Fn() -> Fleet, world: World) -> String {
    let cluster = Memory::new(fleet(), now());
    until_rest(&cluster, world).await;
    let (writes, end, said, log) = {
        let state = cluster.state();
        (state.writes, left(&state), told(&state), state.log.join("\n"))
    };
    assert!(said.values().all(|count| *count == 1), "{said:?}");
    for fault in [Fault::DieBefore, Fault::DieAfter, Fault::LoseAnswer, Fault::Rival] {
        for at in 1..=writes {
            let cluster = Memory::new(fleet(), now());
            cluster.state().fault = Some((at, fault));
            until_rest(&cluster, world).await;
            let state = cluster.state();
            let context = || format!("{fault:?} at write {at}:\n{}", state.log.join("\n"));
            assert_eq!(left(&state), end, "{}", context());
            for (notice, count) in told(&state) {
                assert_eq!((count, said.get(&notice)), (1, Some(&1)), "{notice}: {}", context());
            }
        }
    }
    let said: Vec<&String> = said.keys().collect();
    format!("{log}\ntold {said:?}\n{end}")
}

/// Karpenter answers a placeholder with the Node `node-b`, and lets a deleted claim go.
pub(super) fn karpenter(state: &mut State, minute: u32) {
    let placeholder = (Kind::Pod, "noderotation-surge-a".to_owned());
    let created = to_annotation(state.now);
    if state.fleet.objects.get(&placeholder).is_some_and(|pod| pod.0["spec"]["nodeName"].is_null()) {
        if state.object(Kind::NodeClaim, "b").is_none() {
            state.fleet = std::mem::take(&mut state.fleet).host("b", |mut claim| {
                claim.0["metadata"]["creationTimestamp"] = json!(created);
                claim
            });
            state.fleet = std::mem::take(&mut state.fleet).change(Kind::Node, "node-b", noted);
        }
        let pod = state.fleet.objects.remove(&placeholder).unwrap();
        state.fleet.objects.insert(placeholder, pod.on("node-b").phase("Running"));
    }
    finalize(state, minute);
}

/// A claim that is being deleted is gone two minutes later, with its Node and what is on it.
fn finalize(state: &mut State, _: u32) {
    let Some(claim) = state.object(Kind::NodeClaim, "a") else { return };
    let Some(since) = claim["metadata"]["deletionTimestamp"].as_str() else { return };
    if to_annotation(later(state.now, -mins(2))).as_str() >= since {
        for (kind, name) in [(Kind::NodeClaim, "a"), (Kind::Node, "node-a"), (Kind::Pod, "app-a")] {
            state.fleet.objects.remove(&(kind, name.into()));
        }
    }
}

/// Someone deletes the claim in the second minute.
fn deletes(state: &mut State, minute: u32) {
    if minute == 2
        && let Some(claim) = state.fleet.objects.get_mut(&(Kind::NodeClaim, "a".into()))
    {
        claim.0["metadata"]["deletionTimestamp"] = json!(to_annotation(state.now));
    }
}

#[tokio::test]
async fn a_rotation_succeeds_once_wherever_it_is_interrupted() {
    assert_snapshot!(everywhere(|| two_claims(fleet()), karpenter).await, @r#"
    pass 1 write 1: anchor web on a
    pass 1 write 2: begin a from [None, Failed] at 2026-12-02T03:00:00Z
    pass 1 write 3: hold node-a for a
    pass 1 write 4: create the placeholder of a (cpu 1)
    pass 2 write 5: note that b came for a
    pass 2 write 6: freeze node-b for a
    pass 2 write 7: mirror draining of a on web at 2026-12-02T03:01:00Z, surge provisioned 1m
    pass 2 write 8: mark a draining from [Pending]
    pass 2 write 9: delete claim a (uid-a)
    pass 2 write 10: delete the placeholder rotation/noderotation-surge-a of a
    pass 4 write 11: restore node-b from a
    pass 4 write 12: release web from a at 2026-12-02T03:03:00Z: Gone
    pass 4 write 13: unsign web
    told ["RotationCompleted web", "RotationStarted web"]
    NodePool web: last-rotation-at totals window-settled-at
      success 1, failure 0, expired 0, fallback 0, surges 1, drains 1
    NodeClaim b: 
    NodeClaim c: 
    Node node-b: 
    Node node-c: 
    Pod app-c:
    "#);
}

#[tokio::test]
async fn a_rollback_counts_once_wherever_it_is_interrupted() {
    assert_snapshot!(everywhere(|| two_claims(fleet()), |_, _| ()).await, @r#"
    pass 1 write 1: anchor web on a
    pass 1 write 2: begin a from [None, Failed] at 2026-12-02T03:00:00Z
    pass 1 write 3: hold node-a for a
    pass 1 write 4: create the placeholder of a (cpu 1)
    pass 17 write 5: delete the placeholder rotation/noderotation-surge-a of a
    pass 17 write 6: restore node-a from a
    pass 17 write 7: mark a failed at 2026-12-02T03:16:00Z
    pass 17 write 8: release web from a at 2026-12-02T03:16:00Z: Failed at 2026-12-02T03:16:00Z
    pass 17 write 9: unsign web
    told ["RotationFailed a", "RotationStarted web"]
    NodePool web: last-failure-at totals window-settled-at
      success 0, failure 1, expired 0, fallback 0, surges 0, drains 0
    NodeClaim a: failed-at retry-count state written-by
    NodeClaim c: 
    Node node-a: 
    Node node-c: 
    Pod app-a: 
    Pod app-c:
    "#);
}

#[tokio::test]
async fn a_rollback_reaps_what_came_wherever_it_is_interrupted() {
    /// The Node comes, and never becomes Ready.
    fn unready(state: &mut State, minute: u32) {
        karpenter(state, minute);
        for (kind, name, condition) in
            [(Kind::NodeClaim, "b", "Initialized"), (Kind::NodeClaim, "b", "Ready"), (Kind::Node, "node-b", "Ready")]
        {
            let key = (kind, name.to_owned());
            if let Some(object) = state.fleet.objects.remove(&key) {
                state.fleet.objects.insert(key, object.condition(condition, "False"));
            }
        }
    }
    assert_snapshot!(everywhere(|| two_claims(fleet()), unready).await, @r#"
    pass 1 write 1: anchor web on a
    pass 1 write 2: begin a from [None, Failed] at 2026-12-02T03:00:00Z
    pass 1 write 3: hold node-a for a
    pass 1 write 4: create the placeholder of a (cpu 1)
    pass 2 write 5: note that b came for a
    pass 17 write 6: reap claim b (uid-b)
    pass 17 write 7: delete the placeholder rotation/noderotation-surge-a of a
    pass 17 write 8: restore node-a from a
    pass 17 write 9: mark a failed at 2026-12-02T03:16:00Z
    pass 17 write 10: release web from a at 2026-12-02T03:16:00Z: Failed at 2026-12-02T03:16:00Z
    pass 17 write 11: unsign web
    told ["RotationFailed a", "RotationStarted web"]
    NodePool web: last-failure-at totals window-settled-at
      success 0, failure 1, expired 0, fallback 0, surges 0, drains 0
    NodeClaim a: failed-at retry-count state written-by
    NodeClaim b deleting: 
    NodeClaim c: 
    Node node-a: 
    Node node-b: 
    Node node-c: 
    Pod app-a: 
    Pod app-c:
    "#);
}

#[tokio::test]
async fn a_force_expiry_counts_once_wherever_it_is_interrupted() {
    fn slow(state: &mut State, minute: u32) {
        deletes(state, minute);
        finalize(state, minute);
    }
    assert_snapshot!(everywhere(|| two_claims(fleet()), slow).await, @r#"
    pass 1 write 1: anchor web on a
    pass 1 write 2: begin a from [None, Failed] at 2026-12-02T03:00:00Z
    pass 1 write 3: hold node-a for a
    pass 1 write 4: create the placeholder of a (cpu 1)
    pass 3 write 5: mark a expired from [None, Pending]
    pass 3 write 6: delete the placeholder rotation/noderotation-surge-a of a
    pass 3 write 7: restore node-a from a
    pass 3 write 8: release web from a at 2026-12-02T03:02:00Z: Expired
    pass 3 write 9: unsign web
    told ["RotationExpired a", "RotationStarted web"]
    NodePool web: totals window-settled-at
      success 0, failure 0, expired 1, fallback 0, surges 0, drains 0
    NodeClaim c: 
    Node node-c: 
    Pod app-c:
    "#);
}

#[tokio::test]
async fn so_does_one_whose_claim_is_gone_at_once() {
    fn at_once(state: &mut State, minute: u32) {
        deletes(state, minute);
        if minute == 2 {
            state.now = later(state.now, hours(1));
            finalize(state, minute);
            state.now = later(state.now, -hours(1));
        }
    }
    assert_snapshot!(everywhere(|| two_claims(fleet()), at_once).await, @r#"
    pass 1 write 1: anchor web on a
    pass 1 write 2: begin a from [None, Failed] at 2026-12-02T03:00:00Z
    pass 1 write 3: hold node-a for a
    pass 1 write 4: create the placeholder of a (cpu 1)
    pass 3 write 5: delete the placeholder rotation/noderotation-surge-a of a
    pass 3 write 6: release web from a at 2026-12-02T03:02:00Z: Gone
    pass 3 write 7: unsign web
    told ["RotationExpired a", "RotationStarted web"]
    NodePool web: totals window-settled-at
      success 0, failure 0, expired 1, fallback 0, surges 0, drains 0
    NodeClaim c: 
    Node node-c: 
    Pod app-c:
    "#);
}

#[tokio::test]
async fn a_fallback_counts_once_wherever_it_is_interrupted() {
    let near = || {
        let fleet = two_claims(fleet().surge("forcefulFallback", json!({"enabled": true})));
        fleet.change(Kind::NodeClaim, "a", |claim| claim.age(days(14) - mins(60)))
    };
    assert_snapshot!(everywhere(near, finalize).await, @r#"
    pass 1 write 1: anchor web on a as fallback at 2026-12-02T03:00:00Z
    pass 1 write 2: mark a draining from [None, Pending, Failed, Expired]
    pass 1 write 3: delete claim a (uid-a)
    pass 3 write 4: release web from a at 2026-12-02T03:02:00Z: Gone
    pass 3 write 5: unsign web
    told ["ForcefulFallback web", "RotationCompleted web"]
    NodePool web: last-rotation-at totals window-settled-at
      success 1, failure 0, expired 0, fallback 1, surges 0, drains 1
    NodeClaim c: 
    Node node-c: 
    Pod app-c:
    "#);
}

#[tokio::test]
async fn lost_governance_leaves_nothing_wherever_it_is_interrupted() {
    fn leaves(state: &mut State, minute: u32) {
        if minute == 2 {
            state.fleet.policies.clear();
        }
    }
    assert_snapshot!(everywhere(|| two_claims(fleet()), leaves).await, @r#"
    pass 1 write 1: anchor web on a
    pass 1 write 2: begin a from [None, Failed] at 2026-12-02T03:00:00Z
    pass 1 write 3: hold node-a for a
    pass 1 write 4: create the placeholder of a (cpu 1)
    pass 3 write 5: delete the placeholder rotation/noderotation-surge-a of a
    pass 3 write 6: restore node-a from a
    pass 3 write 7: clear a
    pass 3 write 8: release web from a at 2026-12-02T03:02:00Z: WithoutOutcome
    pass 3 write 9: unsign web
    told ["GovernanceLost web", "RotationStarted web"]
    NodePool web: window-settled-at
      success 0, failure 0, expired 0, fallback 0, surges 0, drains 0
    NodeClaim a: 
    NodeClaim c: 
    Node node-a: 
    Node node-c: 
    Pod app-a: 
    Pod app-c:
    "#);
}

#[tokio::test]
async fn a_rotation_that_loses_its_policy_while_it_drains_is_left_to_its_end() {
    fn leaves(state: &mut State, minute: u32) {
        if minute < 8 {
            // Its drain takes until the sixth minute.
            let pods = state.now;
            state.now = if minute < 6 { later(state.now, -hours(1)) } else { state.now };
            karpenter(state, minute);
            state.now = pods;
        }
        if minute == 3 {
            state.fleet.policies.clear();
        }
    }
    let cluster = Memory::new(two_claims(fleet()), now());
    until_rest(&cluster, leaves).await;
    assert_snapshot!(cluster.state().log.join("\n"), @r"
    pass 1 write 1: anchor web on a
    pass 1 write 2: begin a from [None, Failed] at 2026-12-02T03:00:00Z
    pass 1 write 3: hold node-a for a
    pass 1 write 4: create the placeholder of a (cpu 1)
    pass 2 write 5: note that b came for a
    pass 2 write 6: freeze node-b for a
    pass 2 write 7: mirror draining of a on web at 2026-12-02T03:01:00Z, surge absorbed 1m
    pass 2 write 8: mark a draining from [Pending]
    pass 2 write 9: delete claim a (uid-a)
    pass 2 write 10: delete the placeholder rotation/noderotation-surge-a of a
    pass 4 write 11: restore node-a from a
    pass 4 write 12: restore node-b from a
    pass 4 write 13: release web from a at 2026-12-02T03:03:00Z: WithoutOutcome
    pass 4 write 14: unsign web
    ");
    assert_snapshot!(left(&cluster.state()), @r"
    NodePool web: window-settled-at
      success 0, failure 0, expired 0, fallback 0, surges 0, drains 0
    NodeClaim b: 
    NodeClaim c: 
    Node node-b: 
    Node node-c: 
    Pod app-c:
    ");
}

#[tokio::test]
async fn a_start_that_is_refused_anywhere_leaves_nothing_and_says_so() {
    let mut lines = Vec::new();
    for at in 1..=4 {
        let cluster = Memory::new(two_claims(fleet()), now());
        let before = left(&cluster.state());
        cluster.state().fault = Some((at, Fault::Refuse));
        cluster.next_pass();
        let report = pass(&cluster, &config(), 1).await;
        let state = cluster.state();
        assert_eq!(left(&state), before, "refused at write {at}");
        assert!(report.failed() && report.pools["web"].failed && report.pools["web"].assessment.in_flight.is_none());
        let told: Vec<&str> = state.told.iter().map(|notice| notice.reason).collect();
        lines.push(format!("{at}: {}", told.join(" ")));
    }
    assert_snapshot!(lines.join("\n"), @r"
    1: SurgeRefused
    2: RotationStarted RotationReleased
    3: RotationStarted RotationReleased SurgeRefused
    4: RotationStarted RotationReleased SurgeRefused
    ");
}

#[tokio::test]
async fn a_refused_delete_keeps_the_gate_and_is_tried_again() {
    let cluster = Memory::new(two_claims(fleet()), now());
    cluster.state().fault = Some((9, Fault::Refuse));
    until_rest(&cluster, karpenter).await;
    let state = cluster.state();
    assert!(state.told.iter().any(|notice| notice.reason == "DeleteRefused" && notice.message.ends_with("(403): not allowed")));
    assert_snapshot!(state.log[8..].join("\n"), @r"
    pass 3 write 10: delete claim a (uid-a)
    pass 3 write 11: delete the placeholder rotation/noderotation-surge-a of a
    pass 5 write 12: restore node-b from a
    pass 5 write 13: release web from a at 2026-12-02T03:04:00Z: Gone
    pass 5 write 14: unsign web
    ");
}

#[tokio::test]
async fn the_operators_own_marks_survive_a_rollback() {
    let fleet = || two_claims(fleet()).change(Kind::Node, "node-a", |node| node.spec("unschedulable", json!(true)).label("team", "shop"));
    let before = fleet().objects[&(Kind::Node, "node-a".to_owned())].clone();
    let cluster = Memory::new(fleet(), now());
    until_rest(&cluster, |_, _| ()).await;
    let state = cluster.state();
    let mut after = state.fleet.objects[&(Kind::Node, "node-a".to_owned())].clone();
    after.0["metadata"]["resourceVersion"] = json!("1");
    assert_eq!(after, before);
}
