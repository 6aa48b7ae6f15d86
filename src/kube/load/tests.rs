use serde_json::json;

use super::*;
use crate::{
    cluster::Cluster,
    kube::fake::{Fake, Fault, refuse},
};

fn claim(name: &str) -> (String, serde_json::Value) {
    let metadata = json!({"name": name, "labels": {keys::NODEPOOL_LABEL: "web"}});
    (format!("{NODECLAIMS}/{name}"), json!({"metadata": metadata, "spec": {"expireAfter": "336h"}, "unknown": {"field": 1}}))
}

fn five() -> Fake {
    let fake = ["a", "b", "c", "d", "e"].into_iter().fold(Fake::new(), |fake, name| {
        let (path, object) = claim(name);
        fake.with(&path, object)
    });
    fake.store(|store| store.page = Some(2));
    fake
}

fn names(view: &View) -> Vec<&str> {
    view.claims.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_list_of_several_pages_is_read_whole() {
    let fake = five();
    let session = fake.session().await;
    let view = session.load().await.unwrap();
    assert_eq!(names(&view), ["a", "b", "c", "d", "e"]);
    assert_eq!(fake.sent("GET").iter().filter(|path| *path == NODECLAIMS).count(), 3);
}

#[tokio::test]
async fn the_next_page_is_on_its_way_while_one_is_read() {
    let fake = (0..150).fold(Fake::new(), |fake, number| {
        let (path, object) = claim(&format!("c{number:03}"));
        fake.with(&path, object)
    });
    fake.store(|store| store.page = Some(100));
    let session = fake.session().await;
    let asked_at_the_end_of_page_one = std::cell::Cell::new(0);
    let parse = |raw: &RawValue| {
        let claim = item::<NodeClaim>(raw)?;
        if claim.metadata.name == "c099" {
            asked_at_the_end_of_page_one.set(fake.sent("GET").len());
        }
        Ok(claim)
    };
    let listed = List::of("NodeClaim", NODECLAIMS).read(session.api(), parse).await.unwrap();
    assert_eq!((listed.items.len(), asked_at_the_end_of_page_one.get()), (150, 2));
}

#[tokio::test]
async fn an_expired_continuation_begins_the_list_again_but_not_for_ever() {
    let expired = || refuse(410, "the provided continue parameter is too old");
    let list = List::of("NodeClaim", NODECLAIMS);
    let fake = five();
    let session = fake.session().await;
    // The second page expires; meanwhile one claim has gone.
    let gone = |store: &mut crate::kube::fake::Store| drop(store.objects.remove(&claim("a").0));
    fake.fault("GET", Fault::First(Box::new(|_| {})));
    fake.fault("GET", expired());
    fake.fault("GET", Fault::First(Box::new(gone)));
    let listed = list.read(session.api(), item::<NodeClaim>).await.unwrap();
    let listed: Vec<_> = listed.items.iter().map(|claim| claim.metadata.name.as_str()).collect();
    assert_eq!(listed, ["b", "c", "d", "e"]);

    fake.log();
    for _ in 0..4 {
        fake.fault("GET", expired());
    }
    let failure = list.read(session.api(), item::<NodeClaim>).await.unwrap_err();
    assert_eq!(failure.to_string(), "list NodeClaims: HTTP 410: the provided continue parameter is too old");
    assert_eq!(fake.sent("GET").len(), 4);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_harms_only_itself() {
    let fake = five()
        .with(
            &format!("{NODECLAIMS}/f"),
            json!({"metadata": {"name": "f", "labels": {keys::NODEPOOL_LABEL: "web"}}, "spec": {"expireAfter": 3}}),
        )
        .with(&format!("{NODEPOOLS}/web"), json!({"metadata": {"name": "web"}, "spec": {"replicas": "many"}}));
    let view = fake.session().await.load().await.unwrap();
    assert_eq!(names(&view), ["a", "b", "c", "d", "e"]);
    let broken = |kind, name: &str, why: &str| Unreadable { kind, name: name.into(), pool: Some("web".into()), why: why.into() };
    let expected = [
        broken("NodePool", "web", "spec.replicas: invalid type: string \"many\", expected i64 at line 1 column 74"),
        broken("NodeClaim", "f", "spec.expireAfter: invalid type: integer `3`, expected a string at line 1 column 108"),
    ];
    let without_places: Vec<_> =
        view.unreadable.iter().map(|one| (one.kind, one.name.as_str(), one.pool.as_deref(), place(&one.why))).collect();
    assert_eq!(
        without_places,
        expected.iter().map(|one| (one.kind, one.name.as_str(), one.pool.as_deref(), place(&one.why))).collect::<Vec<_>>()
    );
}

/// Without line and column.
fn place(why: &str) -> &str {
    why.split(" at line").next().unwrap()
}

#[tokio::test]
async fn only_our_pods_and_marked_nodes_are_read() {
    let fake = Fake::new()
        .with("/api/v1/namespaces/ns/pods/ours", json!({"metadata": {"name": "ours", "labels": {keys::SURGE_FOR: "a"}}}))
        .with("/api/v1/namespaces/ns/pods/other", json!({"metadata": {"name": "other"}}))
        .with("/api/v1/nodes/marked", json!({"metadata": {"name": "marked", "labels": {keys::MARKED: "true"}}}))
        .with("/api/v1/nodes/plain", json!({"metadata": {"name": "plain"}}));
    let view = fake.session().await.load().await.unwrap();
    assert_eq!(view.placeholders.keys().collect::<Vec<_>>(), ["ours"]);
    assert_eq!(view.marked.keys().collect::<Vec<_>>(), ["marked"]);
}

#[tokio::test]
async fn a_list_that_fails_a_little_is_read_and_one_that_is_refused_is_named() {
    let list = List::of("NodeClaim", NODECLAIMS);
    let fake = five();
    let session = fake.session().await;
    for fault in [refuse(503, "starting"), Fault::LoseRequest, Fault::Throttle(0)] {
        fake.fault("GET", fault);
        assert_eq!(list.read(session.api(), item::<NodeClaim>).await.unwrap().items.len(), 5);
    }
    fake.fault("GET", refuse(403, "nodeclaims is forbidden: cannot list"));
    let failure = list.read(session.api(), item::<NodeClaim>).await.unwrap_err();
    assert_eq!(failure.to_string(), "list NodeClaims: HTTP 403: nodeclaims is forbidden: cannot list");
}
