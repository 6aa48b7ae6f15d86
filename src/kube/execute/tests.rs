use std::time::Duration;

use serde_json::json;

use super::*;
use crate::{
    api::keys,
    cluster::Cluster,
    kube::{
        fake::{Fake, Fault, Store, at, refuse},
        session::{Session, Terms},
        stop::{Signal, Stop},
    },
    rotation::effect::Effect,
};

mod known;

const POOL: &str = "/apis/karpenter.sh/v1/nodepools/web";
const CLAIM: &str = "/apis/karpenter.sh/v1/nodeclaims/web-a";

fn fake() -> Fake {
    let pool = json!({"kind": "NodePool", "metadata": {"name": "web", "uid": "pool-1"}});
    let claim = json!({"kind": "NodeClaim", "metadata": {
        "name": "web-a", "uid": "claim-1", "annotations": {keys::STATE: "draining"}, "finalizers": ["karpenter.sh/termination"],
    }});
    Fake::new().with(POOL, pool).with(CLAIM, claim)
}

fn anchor() -> Effect {
    Effect::Anchor { pool: "web".into(), claim: "web-a".into(), at: at("2026-11-30T07:00:00Z"), failed_at: None }
}

fn delete() -> Effect {
    Effect::DeleteClaim { claim: "web-a".into(), uid: "claim-1".into() }
}

/// The kind of an outcome, with what stood before (of a NodePool) and after: versions, and a deletion.
fn brief(outcome: &Outcome) -> String {
    let version = |fresh: &Option<Fresh>| {
        fresh.as_ref().map_or("-".into(), |fresh| {
            let meta = meta(fresh);
            format!("{}{}", meta.resource_version, if meta.is_deleting() { " deleting" } else { "" })
        })
    };
    match outcome {
        Outcome::Landed { before, after } => format!("landed {} > {}", version(&before.clone().map(Fresh::NodePool)), version(after)),
        other => format!("{other:?}"),
    }
}

async fn run(session: &Session, effect: &Effect) -> String {
    session.apply(effect).await.map_or_else(|failure| failure.to_string(), |outcome| brief(&outcome))
}

/// Annotates the pool, as a rival would.
fn rival(key: &'static str, value: &'static str) -> Fault {
    Fault::First(Box::new(move |store| {
        let mut pool = store.objects[POOL].clone();
        pool["metadata"]["annotations"][key] = json!(value);
        store.put(POOL, pool);
    }))
}

#[tokio::test]
async fn a_patch_lands_with_what_stood_before_and_after() {
    let fake = fake();
    let session = fake.session().await;
    assert_eq!(run(&session, &anchor()).await, "landed 1 > 4");
    assert_eq!(fake.get(POOL).unwrap()["metadata"]["annotations"][keys::ACTIVE_ROTATION], "web-a");
    assert_eq!(fake.log(), [format!("GET {POOL}?"), format!("PATCH {POOL}?&fieldManager=noderotation")]);
    assert_eq!(run(&session, &anchor()).await, "Already");
}

#[tokio::test]
async fn a_conflict_is_judged_again_on_the_new_copy() {
    let fake = fake();
    let session = fake.session().await;
    fake.fault("PATCH", rival("team", "a"));
    assert_eq!(run(&session, &anchor()).await, "landed 4 > 5");
    fake.store(|store| store.put(POOL, json!({"metadata": {"name": "web"}})));
    fake.fault("PATCH", rival(keys::ACTIVE_ROTATION, "web-b"));
    assert!(run(&session, &anchor()).await.starts_with("Raced("));
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_has_landed_with_what_stood_before_it() {
    let fake = fake();
    let session = fake.session().await;
    fake.fault("PATCH", Fault::LoseAnswer);
    assert_eq!(run(&session, &anchor()).await, "landed 1 > 4");
    assert_eq!(fake.sent("PATCH").len(), 1);
}

#[tokio::test]
async fn a_write_that_a_proxy_delivers_twice_has_landed() {
    let fake = fake();
    let session = fake.session().await;
    fake.fault("PATCH", Fault::Twice);
    assert_eq!(run(&session, &anchor()).await, "landed 1 > 4");
}

#[tokio::test]
async fn a_conflict_after_which_a_rival_has_done_the_same_is_not_ours() {
    let fake = fake();
    let session = fake.session().await;
    let theirs = |store: &mut Store| {
        let annotations = json!({keys::ACTIVE_ROTATION: "web-a", keys::WRITTEN_BY: "rival"});
        store.put(POOL, json!({"metadata": {"name": "web", "annotations": annotations}}));
    };
    fake.fault("PATCH", Fault::First(Box::new(theirs)));
    assert_eq!(run(&session, &anchor()).await, "Already");
}

#[tokio::test]
async fn five_conflicts_in_a_row_are_a_lost_race() {
    let fake = fake();
    let session = fake.session().await;
    for _ in 0..5 {
        fake.fault("PATCH", rival("team", "a"));
    }
    assert_eq!(run(&session, &anchor()).await, "Raced(\"5 conflicts in a row, the last: the object has been modified\")");
    assert_eq!(fake.sent("PATCH").len(), 5);
}

#[tokio::test]
async fn a_refusal_is_for_good_and_a_missing_object_is_gone() {
    let fake = fake();
    let session = fake.session().await;
    for code in [403, 422, 400] {
        fake.fault("PATCH", refuse(code, "no"));
        assert_eq!(run(&session, &anchor()).await, format!("Refused {{ status: {code}, words: \"no\" }}"));
        assert_eq!(fake.sent("PATCH").len(), 1);
    }
    fake.fault("PATCH", refuse(404, "gone"));
    assert_eq!(run(&session, &anchor()).await, "Gone");
    fake.store(|store| store.objects.remove(POOL));
    assert_eq!(run(&session, &anchor()).await, "Gone");
}

#[tokio::test]
async fn a_throttled_write_is_sent_again_and_a_failing_one_only_thrice() {
    let fake = fake();
    let session = fake.session().await;
    fake.fault("PATCH", Fault::Throttle(0));
    assert_eq!(run(&session, &anchor()).await, "landed 1 > 4");
    fake.store(|store| store.put(POOL, json!({"metadata": {"name": "web"}})));
    fake.log();
    for _ in 0..3 {
        fake.fault("PATCH", refuse(500, "webhook failed"));
    }
    assert_eq!(run(&session, &anchor()).await, "patch NodePool web: HTTP 500: webhook failed");
    assert_eq!(fake.sent("PATCH").len(), 3);
    fake.fault("PATCH", Fault::Throttle(3600));
    assert_eq!(run(&session, &anchor()).await, "patch NodePool web: HTTP 429: slow down");
    assert_eq!(fake.sent("PATCH").len(), 1);
}

#[tokio::test]
async fn a_delete_lands_whichever_way_its_answer_goes() {
    for fault in [None, Some(Fault::LoseAnswer), Some(Fault::LoseRequest), Some(refuse(504, "timeout"))] {
        let fake = fake();
        let session = fake.session().await;
        if let Some(fault) = fault {
            fake.fault("DELETE", fault);
        }
        assert!(run(&session, &delete()).await.starts_with("landed - > "));
        assert!(fake.get(CLAIM).unwrap()["metadata"]["deletionTimestamp"].is_string());
    }
    let fake = fake();
    let session = fake.session().await;
    fake.fault("DELETE", Fault::First(Box::new(|store| drop(store.objects.remove(CLAIM)))));
    assert_eq!(run(&session, &delete()).await, "landed - > -");
    assert_eq!(run(&session, &delete()).await, "Gone");
}

#[tokio::test]
async fn a_delete_never_meets_another_object_of_the_name() {
    let fake = fake();
    let session = fake.session().await;
    let successor = |store: &mut Store| store.put(CLAIM, json!({"metadata": {"name": "web-a", "uid": "claim-2"}}));
    fake.fault("DELETE", Fault::First(Box::new(successor)));
    assert_eq!(run(&session, &delete()).await, "landed - > -");
    assert!(fake.get(CLAIM).unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test]
async fn a_created_placeholder_is_ours_even_when_its_answer_is_lost_or_it_is_sent_twice() {
    let pod = json!({"metadata": {
        "name": "noderotation-surge-web-a", "namespace": "ns", "labels": {keys::SURGE_FOR: "web-a"}, "annotations": {keys::SURGE_FOR: "web-a"},
    }});
    let effect = Effect::CreatePlaceholder { pod: serde_json::from_value(pod).unwrap(), claim: "web-a".into() };
    for fault in [None, Some(Fault::LoseAnswer), Some(Fault::LoseRequest), Some(Fault::Twice)] {
        let fake = fake();
        let session = fake.session().await;
        if let Some(fault) = fault {
            fake.fault("POST", fault);
        }
        assert_eq!(run(&session, &effect).await, "landed - > 4");
        assert_eq!(run(&session, &effect).await, "Already");
    }
    let fake = fake();
    let session = fake.session().await;
    fake.fault("POST", refuse(404, "namespaces \"ns\" not found"));
    assert_eq!(run(&session, &effect).await, "Refused { status: 404, words: \"namespaces \\\"ns\\\" not found\" }");
}

#[tokio::test]
async fn nothing_is_written_after_a_signal_without_the_lease_or_past_the_deadline() {
    let fake = fake();
    let (signal, stop) = Stop::by_hand();
    let mut session = Session::open(fake.client(), Terms { stop, ..fake.terms() }).await.unwrap();
    assert_eq!(run(&session, &anchor()).await, "the Lease is lost: it was not taken");
    assert_eq!(session.take_lease(Duration::ZERO).await, Ok(None));
    fake.store(|store| store.now = Some(at("2026-11-30T07:00:12Z")));
    // The read's answer tells that it is later than it seemed.
    assert_eq!(run(&session, &anchor()).await, "the Lease is lost: not renewed for 11s: no renewal has been answered");
    signal.send_replace(Some(Signal::Terminate));
    assert_eq!(run(&session, &anchor()).await, "interrupted by a signal, before NodePool web");
    let terms = Terms { deadline: Duration::ZERO, ..fake.terms() };
    let late = Session::open(fake.client(), terms).await;
    assert!(matches!(late, Err(crate::kube::preflight::PreflightError::Unreachable { cause: CallError::Deadline, .. })));
    assert_eq!(fake.sent("PATCH"), [""; 0]);
}

#[tokio::test]
async fn a_call_that_hangs_is_named() {
    let fake = fake();
    let terms = Terms { request_timeout: Some(Duration::from_millis(50)), ..fake.terms() };
    let mut session = Session::open(fake.client(), terms).await.unwrap();
    assert_eq!(session.take_lease(Duration::ZERO).await, Ok(None));
    fake.fault("GET", Fault::Hang);
    assert_eq!(run(&session, &anchor()).await, "get NodePool web: no complete answer within 50ms");
    for _ in 0..3 {
        fake.fault("PATCH", Fault::Hang);
    }
    assert_eq!(run(&session, &anchor()).await, "patch NodePool web: no complete answer within 50ms");
}

#[tokio::test]
async fn a_late_first_delivery_that_makes_the_second_conflict_has_landed() {
    const NODE: &str = "/api/v1/nodes/n1";
    let effect = Effect::Freeze { node: "n1".into(), claim: "web-a".into() };
    let plain = json!({"metadata": {"name": "n1", "uid": "node-1"}});
    let fake = Fake::new().with(NODE, plain.clone());
    let session = fake.session().await;
    assert_eq!(run(&session, &effect).await, "landed - > 3");
    let frozen = fake.get(NODE).unwrap();
    fake.store(|store| store.put(NODE, plain));
    // The first delivery is lost on its way, and arrives while the second is sent.
    fake.fault("PATCH", Fault::LoseRequest);
    fake.fault("PATCH", Fault::First(Box::new(move |store| store.put(NODE, frozen))));
    assert_eq!(run(&session, &effect).await, "landed - > 5");
}

#[tokio::test]
async fn a_signal_ends_a_read_that_hangs() {
    let fake = fake();
    let (signal, stop) = Stop::by_hand();
    let mut session = Session::open(fake.client(), Terms { stop, ..fake.terms() }).await.unwrap();
    assert_eq!(session.take_lease(Duration::ZERO).await, Ok(None));
    fake.fault("GET", Fault::Hang);
    let effect = anchor();
    let later = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        signal.send_replace(Some(Signal::Terminate));
    };
    let (outcome, ()) = futures::join!(run(&session, &effect), later);
    assert_eq!(outcome, "interrupted by a signal, before the answer to: get NodePool web");
    session.close().await;
    let lease = fake.get("/apis/coordination.k8s.io/v1/namespaces/ns/leases/noderotation").unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "", "it is released all the same");
}
