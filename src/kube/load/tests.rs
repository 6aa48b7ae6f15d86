use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

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

/// An API whose answers come in these pieces, one answer after the other; an empty piece breaks the connection. With
/// how many pieces have been asked for.
fn piecewise(answers: &'static [&'static [&'static str]]) -> (Api, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, turn) = (Arc::clone(&asked), AtomicUsize::new(0));
    let client = kube::Client::new(
        tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let pieces = answers[turn.fetch_add(1, Ordering::Relaxed)].iter();
            let count = Arc::clone(&count);
            let frames = pieces.map(move |piece| {
                count.fetch_add(1, Ordering::Relaxed);
                if piece.is_empty() { Err(std::io::Error::other("reset")) } else { Ok(http_body::Frame::data(bytes::Bytes::from(*piece))) }
            });
            let body = http_body_util::StreamBody::new(futures::stream::iter(frames));
            std::future::ready(Ok::<_, std::io::Error>(http::Response::new(body)))
        }),
        "default",
    );
    (Api::new(client, std::time::Duration::from_secs(50), crate::kube::stop::Stop::never()), asked)
}

#[tokio::test]
async fn an_item_is_read_before_the_rest_of_its_page_has_come() {
    let (api, asked) = piecewise(&[&[r#"{"items":[{"metadata":{"name":"a"}},{"meta"#, r#"data":{"name":"b"}}],"metadata":{}}"#]]);
    let read = std::cell::RefCell::new(Vec::new());
    let parse = |item: &[u8]| {
        read.borrow_mut().push((super::item::<NodeClaim>(item)?.metadata.name, asked.load(Ordering::Relaxed)));
        Ok(())
    };
    List::of("NodeClaim", NODECLAIMS).read(&api, parse).await.unwrap();
    assert_eq!(*read.borrow(), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
}

#[tokio::test]
async fn a_page_that_breaks_off_is_read_again_and_no_item_comes_twice() {
    let first = &[r#"{"items":[{"metadata":{"name":"a"}}],"metadata":{"continue":"x"}}"#][..];
    let broken = &[r#"{"items":[{"metadata":{"name":"b"}},{"spec":{"expireAfter":3}},"#, ""][..];
    let second = &[r#"{"items":[{"metadata":{"name":"b"}},{"metadata":{"name":"c"}}]}"#][..];
    let (api, _) = piecewise(vec![first, broken, second].leak());
    let listed = List::of("NodeClaim", NODECLAIMS).read(&api, item::<NodeClaim>).await.unwrap();
    assert_eq!(listed.unreadable, []);
    assert_eq!(listed.items.iter().map(|claim| claim.metadata.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[tokio::test]
async fn no_part_of_a_page_is_a_page_though_the_connection_ends_as_if_it_were_all() {
    let first = r#"{"items":[{"metadata":{"name":"a"}}],"metadata":{"continue":"x"}}"#;
    let second = r#"{"kind":"NodeClaimList","items":[{"metadata":{"name":"b"}} , {"metadata":{"name":"c"}}], "metadata":{"continue":""}}"#;
    let list = List::of("NodeClaim", NODECLAIMS);
    for length in 1..second.len() {
        let cut = &second[..length];
        // Broken connections are tried twice.
        let (api, _) = piecewise(vec![&*vec![first].leak(), &*vec![cut].leak(), &*vec![cut].leak()].leak());
        let failure = list.read(&api, item::<NodeClaim>).await.unwrap_err();
        assert_eq!(failure.to_string(), "list NodeClaims: the answer breaks off", "{cut}");
    }
}

#[tokio::test]
async fn what_is_no_list_is_told_with_its_beginning() {
    let list = List::of("NodeClaim", NODECLAIMS);
    let cases = [
        ("<html>Sign in</html>", "expected value at line 1 column 1; it begins \"<html>Sign in</html>\""),
        ("{}", "missing field `items` at line 1 column 2; it begins \"{}\""),
        (r#"{"items":{}}"#, "invalid type: map, expected a sequence at line 1 column 9; it begins \"{\\\"items\\\":{}}\""),
        (r#"{"items":[7]}"#, "an item of the list begins with '7'"),
        (
            r#"{"items":[{}],"items":[{}]}"#,
            "duplicate field `items` at line 1 column 19; it begins \"{\\\"items\\\":[],\\\"items\\\":[]}\"",
        ),
        (r#"{"\u0069tems":[{}]}"#, "its items are not where those of a list are"),
    ];
    for (body, words) in cases {
        let (api, _) = piecewise(vec![&*vec![body].leak()].leak());
        let failure = list.read(&api, item::<NodeClaim>).await.unwrap_err();
        assert_eq!(failure.to_string(), format!("list NodeClaims: the answer can't be read: {words}"));
    }
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
    let words = "the verb `list` on nodeclaims.karpenter.sh/v1 is not allowed (the API server says: nodeclaims is forbidden: cannot list)";
    assert_eq!(failure, Failure::Preflight(words.into()));
    fake.fault("GET", refuse(403, "nodes is forbidden: cannot list"));
    let failure = List::of("Node", NODES).read(session.api(), item::<Node>).await.unwrap_err();
    assert_eq!(failure.to_string(), "list Nodes: HTTP 403: nodes is forbidden: cannot list");
}

#[tokio::test(start_paused = true)]
async fn of_several_lists_that_are_refused_the_same_one_is_named_whichever_answer_comes_first() {
    for first in [NODEPOOLS, NODECLAIMS, POLICIES] {
        let refused = tower::service_fn(move |request: http::Request<kube::client::Body>| async move {
            let wait = if request.uri().path() == first { 0 } else { 1 };
            tokio::time::sleep(std::time::Duration::from_secs(wait)).await;
            let answer = http::Response::builder().status(404).body(kube::client::Body::from(b"404 page not found".to_vec()));
            Ok::<_, std::io::Error>(answer.unwrap())
        });
        let api = Api::new(kube::Client::new(refused, "default"), std::time::Duration::from_secs(50), crate::kube::stop::Stop::never());
        let words = "the API server does not serve nodepools.karpenter.sh/v1: is Karpenter v1 installed? (it says: 404 page not found)";
        assert_eq!(load(&api, "default").await.unwrap_err(), Failure::Preflight(words.into()), "{first} answers first");
    }
}
