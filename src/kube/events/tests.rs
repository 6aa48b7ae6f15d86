use super::*;
use crate::{
    cluster::Cluster,
    kube::fake::{Fake, Fault, at, refuse},
    rotation::notice::Regarding,
};

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn notice(reason: Reason, kind: &'static str, name: &str, uid: &str) -> Notice {
    Notice::new(reason, Regarding { kind, name: name.into(), uid: uid.into() }, "web", "7 of 8 cpu".into())
}

fn blocked() -> Notice {
    notice(Reason::DrainBlocked, "NodePool", "web", "pool-1")
}

#[tokio::test]
async fn an_event_says_everything_that_the_api_wants() {
    let fake = Fake::new();
    let session = fake.session().await;
    session.tell(&[blocked()]).await;
    let path = fake.store(|store| store.objects.keys().find(|path| path.starts_with(EVENTS)).cloned()).unwrap();
    let mut event = fake.get(&path).unwrap();
    assert_eq!(event["eventTime"].as_str().unwrap().len(), "2026-11-30T07:00:00.000000Z".len());
    assert!(event["reportingInstance"].as_str().is_some_and(|instance| !instance.is_empty()));
    for field in ["eventTime", "reportingInstance"] {
        event[field] = Value::Null;
    }
    event["metadata"]["resourceVersion"] = Value::Null;
    assert_eq!(
        event,
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "action": "Assess", "reason": "DrainBlocked", "type": "Warning",
            "metadata": {"name": path[EVENTS.len() + 1..], "namespace": "default", "resourceVersion": null},
            "eventTime": null, "reportingController": "noderotation.io/noderotation", "reportingInstance": null,
            "regarding": {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "web", "uid": "pool-1"}, "note": "7 of 8 cpu",
        })
    );
}

#[tokio::test]
async fn a_condition_is_told_once_while_the_server_remembers_it_and_a_transition_each_time() {
    let fake = Fake::new();
    let mut posts = Vec::new();
    for _ in 0..2 {
        let session = fake.session().await;
        session.tell(&[blocked(), blocked(), notice(Reason::RotationStarted, "NodePool", "web", "pool-1")]).await;
        posts.push(fake.sent("POST").len());
        session.close().await;
    }
    assert_eq!(posts, [2, 1]);
}

#[tokio::test]
async fn conditions_differ_by_object_reason_and_subject_but_not_by_message() {
    let named = |notice: &Notice, pass: &str| name(notice, pass, at("2026-11-30T07:00:00Z"), 0);
    let first = named(&blocked(), "1");
    assert_eq!(named(&Notice { message: "8 of 8 cpu".into(), ..blocked() }, "2"), first);
    let others = [
        named(&blocked().on("freeze"), "1"),
        named(&notice(Reason::DrainStuck, "NodePool", "web", "pool-1"), "1"),
        named(&notice(Reason::DrainBlocked, "NodePool", "web", "pool-2"), "1"),
    ];
    assert_eq!(BTreeSet::from_iter(others).len(), 3);
}

#[tokio::test]
async fn an_expired_rotation_has_one_name_whoever_tells_it() {
    let named =
        |uid: &str, pass: &str| name(&notice(Reason::RotationExpired, "NodeClaim", "web-a", uid), pass, at("2026-11-30T07:00:00Z"), 0);
    assert_eq!(named("claim-1", "1"), named("", "2"));
}

#[tokio::test]
async fn a_list_or_event_that_fails_costs_nothing_and_nothing_is_listed_for_transitions() {
    let fake = Fake::new();
    let session = fake.session().await;
    session.tell(&[notice(Reason::RotationStarted, "NodePool", "web", "pool-1")]).await;
    assert_eq!(fake.sent("GET"), [""; 0]);
    fake.fault("GET", refuse(403, "no"));
    fake.fault("POST", refuse(403, "no"));
    session.tell(&[blocked()]).await;
    fake.fault("POST", Fault::Twice);
    session.tell(&[blocked()]).await;
    assert_eq!(fake.sent("POST").len(), 2);
}

#[test]
fn long_texts_and_names_are_cut_to_what_the_api_takes() {
    let note = cut(&"ä".repeat(1000), NOTE);
    assert!(note.len() <= NOTE && note.ends_with('…'));
    assert_eq!(cut("short", NOTE), "short");
    let long = notice(Reason::DrainBlocked, "NodePool", &format!("{}.{}", "a".repeat(199), "b".repeat(53)), "pool-1");
    let name = name(&long, "1", at("2026-11-30T07:00:00Z"), 0);
    assert_eq!(name.len(), 199 + 1 + 16);
}
