//! An effect that is first judged on a copy that the pass has: what the copy leads to counts only where it lands.

use super::*;

/// The pool or claim as it stands now.
fn copy(fake: &Fake, path: &str) -> Option<Option<Fresh>> {
    let kind = if path == POOL { Kind::NodePool } else { Kind::NodeClaim };
    let object = fake.get(path).unwrap().to_string();
    Some(Some(super::fresh(kind, &Bytes::from(object)).unwrap()))
}

fn put(fake: &Fake, path: &str, annotations: serde_json::Value) {
    fake.store(|store| {
        let mut object = store.objects[path].clone();
        object["metadata"]["annotations"] = annotations;
        store.put(path, object);
    });
}

fn create() -> Effect {
    let pod = json!({"metadata": {
        "name": "noderotation-surge-web-a", "namespace": "ns", "labels": {keys::SURGE_FOR: "web-a"}, "annotations": {keys::SURGE_FOR: "web-a"},
    }});
    Effect::CreatePlaceholder { pod: serde_json::from_value(pod).unwrap(), claim: "web-a".into() }
}

/// What it came to, and the methods of what was asked for that.
async fn knowing(fake: &Fake, effect: &Effect, known: Option<Option<Fresh>>) -> (String, String) {
    troubled(fake, effect, known, "", Vec::new()).await
}

/// The same where requests with this method go wrong.
async fn troubled(
    fake: &Fake,
    effect: &Effect,
    known: Option<Option<Fresh>>,
    method: &'static str,
    faults: Vec<Fault>,
) -> (String, String) {
    let session = fake.session().await;
    faults.into_iter().for_each(|fault| fake.fault(method, fault));
    let outcome = session.apply_knowing(effect, known).await.map_or_else(|failure| failure.to_string(), |outcome| brief(&outcome));
    let methods: Vec<String> = fake.log().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    session.close().await;
    (outcome, methods.join(" "))
}

fn is(outcome: &str, methods: &str) -> (String, String) {
    (outcome.into(), methods.into())
}

#[tokio::test]
async fn a_patch_on_what_is_known_needs_no_reading_and_tells_what_stood_before() {
    let fake = fake();
    assert_eq!(knowing(&fake, &anchor(), copy(&fake, POOL)).await, is("landed 1 > 4", "PATCH"));
    assert_eq!(fake.get(POOL).unwrap()["metadata"]["annotations"][keys::ACTIVE_ROTATION], "web-a");
}

#[tokio::test]
async fn an_old_copy_conflicts_and_the_new_one_is_judged() {
    for (now, outcome, methods) in [
        (json!({"team": "a"}), "landed 3 > 5", "PATCH GET PATCH"),
        (json!({keys::ACTIVE_ROTATION: "web-a"}), "Already", "PATCH GET"),
        // Our pass's signature would tell of a request that came twice; this is another's.
        (json!({keys::ACTIVE_ROTATION: "web-a", keys::WRITTEN_BY: "rival"}), "Already", "PATCH GET"),
        (json!({keys::ACTIVE_ROTATION: "web-b"}), "Raced(\"the rotation of web-b is anchored already\")", "PATCH GET"),
    ] {
        let fake = fake();
        let known = copy(&fake, POOL);
        put(&fake, POOL, now.clone());
        assert_eq!(knowing(&fake, &anchor(), known).await, is(outcome, methods), "{now}");
    }
    let fake = fake();
    let known = copy(&fake, POOL);
    fake.store(|store| store.objects.remove(POOL));
    assert_eq!(knowing(&fake, &anchor(), known).await, is("Gone", "PATCH GET"));
}

#[tokio::test]
async fn what_a_copy_says_but_for_a_write_is_confirmed_by_reading() {
    let fake = fake();
    for anchored in ["web-a", "web-b"] {
        put(&fake, POOL, json!({keys::ACTIVE_ROTATION: anchored}));
        let known = copy(&fake, POOL);
        let (outcome, methods) = knowing(&fake, &anchor(), known.clone()).await;
        assert!(matches!(outcome.split('(').next(), Some("Already" | "Raced")), "{outcome}");
        assert_eq!(methods, "GET");
        // It was so, and is no longer.
        put(&fake, POOL, json!({}));
        let (outcome, methods) = knowing(&fake, &anchor(), known).await;
        assert!(outcome.starts_with("landed "), "{outcome}");
        assert_eq!(methods, "GET PATCH");
    }
    put(&fake, POOL, json!({}));
    let (outcome, methods) = knowing(&fake, &anchor(), Some(None)).await;
    assert!(outcome.starts_with("landed "), "{outcome}");
    assert_eq!(methods, "GET PATCH", "it was not there, and has come");
}

#[tokio::test]
async fn nothing_is_deleted_on_what_is_known() {
    let fake = fake();
    let known = copy(&fake, CLAIM);
    put(&fake, CLAIM, json!({keys::STATE: "failed"}));
    assert_eq!(knowing(&fake, &delete(), known.clone()).await, is("Raced(\"the NodeClaim is failed\")", "GET"));
    put(&fake, CLAIM, json!({keys::STATE: "draining"}));
    let (outcome, methods) = knowing(&fake, &delete(), known).await;
    assert!(outcome.starts_with("landed "), "{outcome}");
    assert_eq!(methods, "GET DELETE");
}

#[tokio::test]
async fn nothing_is_created_on_what_is_known() {
    let fake = fake();
    assert_eq!(knowing(&fake, &create(), Some(None)).await, is("landed - > 4", "GET POST"));
    assert_eq!(knowing(&fake, &create(), Some(None)).await, is("Already", "GET"), "it was not there, and has come");
}

#[tokio::test]
async fn a_refusal_of_what_an_old_copy_led_to_is_no_refusal() {
    let fake = fake();
    let known = copy(&fake, POOL);
    put(&fake, POOL, json!({keys::ACTIVE_ROTATION: "web-b"}));
    let (outcome, methods) = troubled(&fake, &anchor(), known, "PATCH", vec![refuse(403, "no")]).await;
    assert!(outcome.starts_with("Raced(") && methods == "PATCH GET", "{outcome} {methods}");
    put(&fake, POOL, json!({}));
    let known = copy(&fake, POOL);
    let refused = troubled(&fake, &anchor(), known, "PATCH", vec![refuse(403, "no"), refuse(403, "no")]).await;
    assert_eq!(refused, is("Refused { status: 403, words: \"no\" }", "PATCH GET PATCH"));
}

#[tokio::test]
async fn a_lost_answer_or_a_second_delivery_is_told_as_if_the_object_had_been_read() {
    for (fault, methods) in [(Fault::LoseAnswer, "PATCH GET"), (Fault::Twice, "PATCH GET"), (Fault::LoseRequest, "PATCH GET PATCH")] {
        let fake = fake();
        let known = copy(&fake, POOL);
        assert_eq!(troubled(&fake, &anchor(), known, "PATCH", vec![fault]).await, is("landed 1 > 4", methods));
    }
    let fake = fake();
    let failing = (0..3).map(|_| refuse(500, "webhook failed")).collect();
    let known = copy(&fake, POOL);
    let told = troubled(&fake, &anchor(), known, "PATCH", failing).await;
    assert_eq!(told, is("patch NodePool web: HTTP 500: webhook failed", "PATCH GET PATCH GET PATCH GET"), "it is sent three times at most");
}

#[tokio::test]
async fn nothing_is_written_on_what_is_known_without_the_lease_or_past_its_time() {
    let fake = fake();
    let known = copy(&fake, POOL);
    let session = Session::open(fake.client(), fake.terms()).await.unwrap();
    let failure = session.apply_knowing(&anchor(), known).await.unwrap_err();
    assert_eq!(failure.to_string(), "the Lease is lost: it was not taken");
    assert_eq!(fake.sent("PATCH"), [""; 0]);
}

/// The window may have closed, and the Lease may be another's, while the process stood still.
#[tokio::test]
async fn after_a_sleep_nothing_is_known() {
    let fake = fake();
    let session = fake.session().await;
    session.api().clock.sleep(chrono::TimeDelta::hours(1));
    session.apply_knowing(&anchor(), copy(&fake, POOL)).await.unwrap();
    let methods: Vec<String> = fake.log().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(methods, ["GET", "PATCH"]);
    session.close().await;
}
