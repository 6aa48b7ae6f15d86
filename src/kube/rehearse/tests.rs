use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::{
    api::pod::Pod,
    cluster::Cluster,
    kube::fake::{Fake, Fault, Store, at, refuse},
    rotation::{effect::Fresh, state::State},
    view::{Need, Rehearsal, View},
};

const CLAIM: &str = "/apis/karpenter.sh/v1/nodeclaims/c1";
const NODE: &str = "/api/v1/nodes/n1";

fn fake() -> Fake {
    Fake::new()
        .with(CLAIM, json!({"kind": "NodeClaim", "metadata": {"name": "c1", "uid": "u1", "finalizers": ["karpenter.sh/termination"]}}))
        .with(NODE, json!({"kind": "Node", "metadata": {"name": "n1", "uid": "u2"}}))
}

fn stamp() -> Effect {
    Effect::BeginAttempt { claim: "c1".into(), from: &[State::None], at: at("2026-11-30T07:00:00Z") }
}

fn freeze() -> Effect {
    Effect::Freeze { node: "n1".into(), claim: "c1".into() }
}

fn delete() -> Effect {
    Effect::DeleteClaim { claim: "c1".into(), uid: "u1".into() }
}

fn create() -> Effect {
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p1", "namespace": "ns"}})).unwrap();
    Effect::CreatePlaceholder { pod: pod.into(), claim: "c1".into() }
}

/// The answer of a session that does not hold the Lease and knows nothing.
async fn answer(fake: &Fake, effect: Effect) -> Answer {
    answer_knowing(fake, effect, View::default()).await
}

async fn answer_knowing(fake: &Fake, effect: Effect, mut view: View) -> Answer {
    let session = crate::kube::session::Session::open(fake.client(), fake.terms()).await.unwrap();
    fake.log();
    let rehearsal = Rehearsal(effect);
    session.read(&mut view, &BTreeSet::from([Need::Rehearsal(rehearsal.clone())])).await;
    assert_eq!(view.facts.failed, std::collections::BTreeMap::new(), "a rehearsal never fails a pool");
    view.facts.rehearsals.remove(&rehearsal).unwrap()
}

fn all(fake: &Fake) -> Vec<(String, Value)> {
    fake.store(|store| store.objects.clone().into_iter().collect())
}

#[tokio::test]
async fn what_would_be_done_is_agreed_and_nothing_is_stored() {
    let fake = fake();
    let before = all(&fake);
    let Answer::Agreed { after: Some(after) } = answer(&fake, create()).await else { panic!() };
    let Fresh::Pod(pod) = *after else { panic!() };
    assert_eq!(pod.metadata.name.as_deref(), Some("p1"));
    for (effect, method) in [(stamp(), "PATCH"), (freeze(), "PATCH"), (delete(), "DELETE")] {
        let told = answer(&fake, effect).await;
        assert!(matches!(told, Answer::Agreed { after: None }), "{told:?}");
        assert!(fake.log().iter().any(|line| line.starts_with(method)));
    }
    assert_eq!(all(&fake), before);
}

#[tokio::test]
async fn what_the_real_write_would_meet_is_refused_with_the_servers_words() {
    for status in [400, 403, 405, 413, 422] {
        let fake = fake();
        fake.fault("PATCH", refuse(status, "exceeded quota"));
        assert_eq!(answer(&fake, stamp()).await, Answer::Refused { status, words: "exceeded quota".into() });
    }
    let fake = fake();
    fake.fault("POST", refuse(404, "namespaces \"ns\" not found"));
    assert_eq!(answer(&fake, create()).await, Answer::Refused { status: 404, words: "namespaces \"ns\" not found".into() });
}

/// A webhook that has to be asked (`failurePolicy: Fail`) and doesn't answer: so would the real write end.
#[tokio::test]
async fn a_webhook_that_is_down_refuses_the_write() {
    let words = "Internal error occurred: failed calling webhook \"guard.example\": connection refused";
    let fake = fake();
    for _ in 0..3 {
        fake.fault("PATCH", refuse(500, words));
    }
    assert_eq!(answer(&fake, freeze()).await, Answer::Refused { status: 500, words: words.into() });
}

#[tokio::test]
async fn what_refuses_only_the_dry_run_says_nothing_of_the_write() {
    for (status, words) in [
        (400, "admission webhook \"x.example\" does not support dry run"),
        (400, "dryRun is not supported"),
        (403, "this proxy forbids dry-run requests"),
        (401, "Unauthorized"),
        (500, "etcdserver: request timed out"),
        (500, "failed calling webhook \"x\": dry run is not supported here"),
        (404, "no such object"),
    ] {
        let fake = fake();
        for _ in 0..3 {
            fake.fault("PATCH", refuse(status, words));
        }
        let told = answer(&fake, freeze()).await;
        assert!(matches!(&told, Answer::Unknown(why) if why.contains(words)), "{status} {told:?}");
    }
}

#[tokio::test]
async fn a_lost_connection_is_unknown_and_tried_again_first() {
    let broken = fake();
    broken.fault("DELETE", Fault::LoseAnswer);
    assert!(matches!(answer(&broken, delete()).await, Answer::Agreed { .. }), "nothing was stored, so it may be sent again");
    let broken = fake();
    broken.fault("DELETE", Fault::LoseRequest);
    broken.fault("DELETE", Fault::LoseRequest);
    let told = answer(&broken, delete()).await;
    assert!(matches!(&told, Answer::Unknown(why) if why.starts_with("delete NodeClaim c1 (dry run): ")), "{told:?}");
}

#[tokio::test]
async fn an_object_that_changes_is_judged_again_but_not_for_ever() {
    let touch = |store: &mut Store| {
        let node = store.objects[NODE].clone();
        store.put(NODE, node);
    };
    let fake = fake();
    fake.fault("PATCH", Fault::First(Box::new(touch)));
    assert!(matches!(answer(&fake, freeze()).await, Answer::Agreed { .. }));
    for _ in 0..TRIES {
        fake.fault("PATCH", Fault::First(Box::new(touch)));
    }
    let told = answer(&fake, freeze()).await;
    assert!(matches!(&told, Answer::Unknown(why) if why.starts_with("3 conflicts in a row")), "{told:?}");
}

#[tokio::test]
async fn what_is_so_already_is_agreed_and_what_is_not_ours_to_do_is_unknown() {
    let fake = fake();
    fake.store(|store| store.objects.remove(NODE));
    assert_eq!(answer(&fake, freeze()).await, Answer::Unknown("there is no Node n1".into()));
    let other = json!({"kind": "NodeClaim", "metadata": {"name": "c1", "uid": "another"}});
    fake.store(|store| store.put(CLAIM, other));
    assert!(matches!(answer(&fake, delete()).await, Answer::Unknown(_)));
    assert!(!fake.log().iter().any(|line| line.starts_with("DELETE") || line.starts_with("PATCH")));
}

#[tokio::test]
async fn what_the_pass_has_read_is_read_again_only_after_a_conflict() {
    let fake = fake();
    let object = |path: &str| fake.store(|store| store.objects[path].clone());
    let mut view = View::default();
    view.claims.insert("c1".into(), serde_json::from_value(object(CLAIM)).unwrap());
    view.facts.nodes.insert("n1".into(), serde_json::from_value(object(NODE)).unwrap());
    for effect in [stamp(), freeze(), delete(), create()] {
        assert!(matches!(answer_knowing(&fake, effect, view.clone()).await, Answer::Agreed { .. }));
        let log = fake.log();
        assert_eq!(log.len(), 1, "{log:?}");
    }
    for (path, effect, method) in [(CLAIM, stamp(), "PATCH"), (NODE, freeze(), "PATCH")] {
        fake.store(|store| store.put(path, store.objects[path].clone()));
        assert!(matches!(answer_knowing(&fake, effect, view.clone()).await, Answer::Agreed { .. }));
        let log = fake.log();
        assert!(log.iter().map(|line| line.split(' ').next().unwrap()).eq([method, "GET", method]), "{log:?}");
    }
}
