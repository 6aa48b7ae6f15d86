use serde_json::json;

use super::*;
use crate::{
    cluster::Cluster,
    kube::fake::{Fake, refuse},
};

#[tokio::test]
async fn each_need_is_answered_or_failed_on_its_own() {
    let fake = Fake::new()
        .with(
            "/api/v1/nodes/n1",
            json!({"metadata": {"name": "n1", "labels": {keys::NODEPOOL_LABEL: "web"}}, "spec": {"unschedulable": true}}),
        )
        .with("/api/v1/pods/p1", json!({"metadata": {"name": "p1"}}))
        .with("/apis/policy/v1/namespaces/shop/poddisruptionbudgets/b1", json!({"metadata": {"name": "b1"}}));
    let session = fake.session().await;
    let needs = BTreeSet::from([
        Need::NodesOfPool("web".into()),
        Need::Node("n1".into()),
        Need::Node("n2".into()),
        Need::PodsOn("n1".into()),
        Need::BudgetsIn("shop".into()),
        Need::EventsAbout("ours".into()),
    ]);
    let mut view = View::default();
    session.read(&mut view, &needs).await;
    let facts = &view.facts;
    assert_eq!(facts.failed, BTreeMap::new());
    assert_eq!(facts.nodes_of_pool["web"].keys().collect::<Vec<_>>(), ["n1"]);
    assert!(facts.nodes["n1"].as_ref().unwrap().spec.unschedulable);
    assert_eq!(facts.nodes["n2"], None);
    assert_eq!(facts.pods_on["n1"].len(), 1);
    assert_eq!(facts.budgets["shop"].len(), 1);
    assert!(facts.events["ours"].is_empty());
    let log = fake.log();
    assert!(log.iter().any(|line| line.starts_with("GET /api/v1/pods?") && line.contains("fieldSelector=spec.nodeName%3Dn1")), "{log:?}");

    fake.fault("GET", refuse(403, "no"));
    session.read(&mut view, &BTreeSet::from([Need::PodsOn("n3".into())])).await;
    assert_eq!(view.facts.failed, BTreeMap::from([(Need::PodsOn("n3".into()), "list Pods (spec.nodeName=n3): HTTP 403: no".into())]));
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_fails_the_whole_sum() {
    let fake =
        Fake::new().with("/api/v1/pods/p1", json!({"metadata": {"name": "p1"}})).with("/api/v1/pods/p2", json!({"metadata": {"name": 2}}));
    let mut view = View::default();
    fake.session().await.read(&mut view, &BTreeSet::from([Need::PodsOn("n1".into())])).await;
    assert!(view.facts.pods_on.is_empty());
    assert_eq!(view.facts.failed.len(), 1);
}

#[test]
fn the_newest_message_of_each_reporter_is_told() {
    let event = |fields: serde_json::Value| serde_json::from_value::<Event>(fields).unwrap();
    let events = vec![
        event(json!({
            "metadata": {}, "eventTime": "2026-11-30T07:00:00.000000Z", "reportingController": "default-scheduler", "note": "0/3 nodes",
            "series": {"count": 2, "lastObservedTime": "2026-11-30T07:05:00.000000Z"},
        })),
        event(
            json!({"metadata": {}, "eventTime": "2026-11-30T07:04:00.000000Z", "reportingController": "default-scheduler", "note": "0/2 nodes"}),
        ),
        event(json!({
            "metadata": {}, "eventTime": null, "reportingController": "", "deprecatedSource": {"component": "karpenter"},
            "deprecatedLastTimestamp": "2026-11-30T07:01:00Z", "note": "older",
        })),
        event(json!({
            "metadata": {}, "eventTime": null, "deprecatedSource": {"component": "karpenter"},
            "deprecatedLastTimestamp": "2026-11-30T07:02:00Z", "note": "no instance type",
        })),
    ];
    let newest = newest(events);
    let told: Vec<_> = newest.iter().map(|(reporter, message)| (reporter.as_str(), message.as_str())).collect();
    assert_eq!(told, [("default-scheduler", "0/3 nodes"), ("karpenter", "no instance type")]);
}
